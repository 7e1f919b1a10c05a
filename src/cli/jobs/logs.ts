import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { toOutput } from "../transfer/sink.ts";
import { isOver, mustFind, pathOf } from "./find.ts";

type Line = { seq: number; time: string; stream: "stdout" | "stderr"; line: string };

export const logs = command({
  summary: "Show what a job wrote",
  takes: ["job"],
  flags: {
    ...SERVER_FLAGS,
    follow: { type: "boolean", short: "f", doc: "Go on until the job is over" },
    tail: { type: "string", value: "N", doc: "Begin with the last N lines" },
    all: { type: "boolean", doc: "All of it as text, from the storage; of a job that is over" },
    json: { ...JSON_FLAG, doc: "One JSON object a line" },
  },
  examples: ["verk jobs logs job_… -f", "verk jobs logs sums --tail 20", "verk jobs logs sums --all > sums.log"],
  exits: { 1: "failed: there is no such job", [INTERRUPTED]: "interrupted: the job goes on" },
  async run({ follow, tail, all, json, ...where }, target = "") {
    if (tail !== undefined && !/^\d{1,9}$/.test(tail))
      throw new UsageError(`--tail: expected a number of lines, not ${JSON.stringify(tail)}`);
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    return await interruptible(async (signal) => {
      if (all) await toOutput(client.download(pathOf(job.id, "/logs/full"), signal));
      else {
        const upTo = follow || isOver(job) ? Number.POSITIVE_INFINITY : await askedAt(client, job.id, signal);
        await stream(client, job.id, { follow: follow && !isOver(job), upTo, tail, json, signal });
      }
      return EXIT.ok;
    });
  },
});

/** `upTo`: what was written later was not asked for (epoch ms, by the server's clock). */
type How = { follow: boolean; upTo: number; tail: string | undefined; json: boolean; signal: AbortSignal };

/** Now, as the server has it: to the second, rounded up. */
async function askedAt(client: Client, id: string, signal: AbortSignal): Promise<number> {
  const { headers } = await client.call("GET", pathOf(id), undefined, { signal });
  return Date.parse(headers.get("date") ?? new Date().toUTCString()) + 1_000;
}

const QUIET_MS = 1_000;
const PATIENCE_MS = 30_000;

/** A stream that breaks is opened again behind the last line: the server may have restarted. */
async function stream(client: Client, id: string, how: How): Promise<void> {
  let seen = 0;
  let tail = how.tail;
  for (let lostMs = 0; ; ) {
    try {
      if (await once(client, id, { ...how, tail, after: seen, onLine: (seq) => (seen = Math.max(seen, seq)) })) return;
      lostMs = 0;
    } catch (error) {
      const passing = error instanceof ApiError && (error.status === 0 || error.status >= 500);
      if (!passing || how.signal.aborted || lostMs >= PATIENCE_MS) throw error;
    }
    lostMs += QUIET_MS;
    tail = undefined;
    await Bun.sleep(QUIET_MS);
  }
}

type Once = How & { after: number; onLine: (seq: number) => void };

/** True: there is nothing more to come, or nothing more was asked for. */
async function once(client: Client, id: string, how: Once): Promise<boolean> {
  const { follow, upTo, tail, json, signal, after, onLine } = how;
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const query = tail === undefined ? "" : `?tail=${tail}`;
  const isQuiet = () => void (follow || stop.abort());
  let timer = setTimeout(isQuiet, QUIET_MS);
  try {
    for await (const { event, data } of client.stream(pathOf(id, `/logs${query}`), both)) {
      clearTimeout(timer);
      timer = setTimeout(isQuiet, QUIET_MS);
      if (event === "end") return true;
      if (event === "log") {
        const line = data as Line;
        if (Date.parse(line.time) > upTo) return true;
        if (line.seq > after) show(line, json);
        onLine(line.seq);
      }
    }
    return false;
  } catch (error) {
    if (stop.signal.aborted) return true;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function show(line: Line, json: boolean) {
  if (json) printJson(line);
  else if (line.stream === "stderr") note(line.line);
  else print(line.line);
}
