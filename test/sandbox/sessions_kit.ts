import { readEvents } from "../../src/cli/client.ts";
import type { Exec, Session } from "../../src/resources/machines/sessions/schema.ts";
import type { TestApp } from "../harness.ts";

export async function newSession(app: TestApp, body: object = {}, key?: string): Promise<Session> {
  const answer = await app.call("POST", "/v1/sessions", body, key === undefined ? {} : { key });
  if (answer.status !== 201) throw new Error(`no session: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Runs a shell command, or sends the whole body. */
export async function exec(app: TestApp, id: string, command: string | object): Promise<Exec> {
  const body = typeof command === "string" ? { command } : command;
  const answer = await app.call("POST", `/v1/sessions/${id}/exec`, body);
  if (answer.status !== 200) throw new Error(`not run: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

export const contentPath = (id: string, path: string, more = "") =>
  `/v1/sessions/${id}/files/content?path=${encodeURIComponent(path)}${more}`;
export const put = (app: TestApp, id: string, path: string, raw: BodyInit) =>
  app.call("PUT", contentPath(id, path), undefined, { raw });

/** The open stream of a command. `leave` disconnects the client. */
export async function streamed(app: TestApp, id: string, body: object) {
  const request = new Request(`http://localhost/v1/sessions/${id}/exec`, {
    method: "POST",
    headers: { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const response = await app.handle(request);
  const stream = response.body as ReadableStream<Uint8Array>;
  return { response, events: readEvents(stream), leave: () => stream.cancel() };
}

/** Processes of the whole machine with `mark` in their command line. */
export async function processesWith(mark: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of new Bun.Glob("*/cmdline").scanSync({ cwd: "/proc", onlyFiles: false })) {
    const text = await Bun.file(`/proc/${pid}`)
      .text()
      .catch(() => "");
    if (text.includes(mark) && !pid.startsWith(`${process.pid}/`)) found.push(`${pid} ${text}`);
  }
  return found;
}
