// tier: all (starts nginx and waits for its timeout, 30 s)
/** Streams behind a real nginx that cuts silent connections: none ends with 504. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { manyApps, tempDir, until } from "../harness.ts";
import { pretendServing } from "../pretend_replica.ts";
import { freePort } from "../servers/process.ts";
import { IS_FULL } from "../sweep.ts";

setDefaultTimeout(300_000);
const TIMEOUT_SECONDS = IS_FULL ? 60 : 12; // 60 is nginx's default; a comment comes every 10 s
const nginx = Bun.which("nginx", { PATH: `${process.env["PATH"]}:/usr/sbin` });
const { open, closeAll } = manyApps();
const dir = tempDir();
let proxy: Bun.Subprocess | undefined;
let server: Bun.Server<undefined>;
let port = 0;
let key = "";
const silent = Promise.withResolvers<void>();

beforeAll(async () => {
  if (!nginx) return;
  const app = open({ parts: ["models"] });
  key = app.keyA;
  const { body } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  pretendServing(app, body.id, {
    worker: () => async () => {
      await silent.promise;
      const error = { code: "worker_failed", type: "api_error", message: "The prompt was too hard", param: null };
      return Response.json({ error }, { status: 502 });
    },
  });
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", idleTimeout: 0, fetch: (request) => app.handle(request) });
  port = await freePort();
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => {
    mkdirSync(join(dir, name));
    return `${name}_temp_path ${join(dir, name)};`;
  });
  const config = `daemon off;
    ${process.getuid?.() === 0 ? "user root;" : ""}
    pid ${join(dir, "pid")};
    error_log ${join(dir, "error.log")};
    events {}
    http {
      access_log off;
      ${paths.join("\n")}
      server {
        listen 127.0.0.1:${port};
        location / {
          proxy_pass http://127.0.0.1:${server.port};
          ${IS_FULL ? "" : `proxy_read_timeout ${TIMEOUT_SECONDS}s;`}
        }
      }
    }`;
  writeFileSync(join(dir, "nginx.conf"), config);
  proxy = Bun.spawn([nginx, "-p", dir, "-e", join(dir, "error.log"), "-c", join(dir, "nginx.conf")], {
    stderr: "pipe",
  });
  await until("nginx to answer", async () => (await fetch(`http://127.0.0.1:${port}/healthz`)).ok);
});
afterAll(async () => {
  proxy?.kill("SIGTERM");
  await proxy?.exited;
  await server?.stop(true);
  await closeAll();
  rmSync(dir, { recursive: true, force: true });
});

const MESSAGES = [{ role: "user", content: "hi" }];
const CALLS: [path: string, body: object][] = [
  ["/v1/chat/completions", { messages: MESSAGES }],
  ["/v1/responses", { input: "hi" }],
  ["/v1/messages", { messages: MESSAGES, max_tokens: 4 }],
  ["/api/chat", { messages: MESSAGES }],
];

test.skipIf(!nginx)(
  `nginx ${nginx ? "" : "is not installed: it "}cuts no stream that waits twice its timeout for a token`,
  async () => {
    const begunAt = performance.now();
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const answers = CALLS.map(async ([path, fields]) => {
      const body = JSON.stringify({ model: "d", stream: true, ...fields });
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", headers, body });
      const beganMs = performance.now() - begunAt;
      return { status: answer.status, beganMs, text: await answer.text() };
    });
    await Promise.race([Bun.sleep(2 * TIMEOUT_SECONDS * 1000), ...answers]); // the timeout of nginx is real time
    silent.resolve();
    for (const { status, beganMs, text } of await Promise.all(answers)) {
      expect([status, text]).toEqual([200, expect.stringContaining("The prompt was too hard")]);
      expect(beganMs).toBeLessThan(5_000);
    }
  },
);
