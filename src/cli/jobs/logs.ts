import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { isOutage } from "../poll.ts";
import { toOutput } from "../transfer/sink.ts";
import { isOver, mustFind, pathOf } from "./find.ts";

type Line = { seq: number; time: string; stream: "stdout" | "stderr"; line: string; continues?: true };

export const logs = command({
  summary: "Show the log of a job",
  takes: ["job"],
  flags: {
    ...SERVER_FLAGS,
    follow: { type: "boolean", short: "f", doc: "Follow the log until the job ends" },
    tail: { type: "string", value: "N", doc: "Start with the last N lines" },
    all: { type: "boolean", doc: "Print the whole log of a job that has ended: standard output, then standard error" },
    json: { ...JSON_FLAG, doc: "Print one JSON object per line" },
  },
  examples: ["verk jobs logs job_… -f", "verk jobs logs sums --tail 20", "verk jobs logs sums --all > sums.log"],
  exits: { 1: "failed: there is no such job", [INTERRUPTED]: "interrupted: the job continues" },
  async run({ follow, tail, all, json, ...where }, target = "") {
    if (tail !== undefined && !/^\d{1,9}$/.test(tail))
      throw new UsageError(`--tail: expected a number of lines, not ${JSON.stringify(tail)}`);
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    return await interruptible(async (signal) => {
      if (all) await toOutput(client.download(pathOf(job.id, "/logs/full?stream=all"), signal));
      else {
        const upTo = follow || isOver(job) ? Number.POSITIVE_INFINITY : await serverTime(client, job.id, signal);
        await stream(client, job.id, { follow: follow && !isOver(job), upTo, tail, json, signal });
      }
      return EXIT.ok;
    });
  },
});

/** `upTo`: lines written later are not shown (epoch ms, by the server's clock). */
type LogOptions = { follow: boolean; upTo: number; tail: string | undefined; json: boolean; signal: AbortSignal };

/** The current time of the server's clock, rounded up to a second. */
async function serverTime(client: Client, id: string, signal: AbortSignal): Promise<number> {
  const { headers } = await client.call("GET", pathOf(id), undefined, { signal });
  return Date.parse(headers.get("date") ?? new Date().toUTCString()) + 1_000;
}

const QUIET_MS = 1_000;
const OUTAGE_MS = 30_000;

/** Reopens a broken stream after the last line, because the server may have restarted. */
async function stream(client: Client, id: string, options: LogOptions): Promise<void> {
  let seen = 0;
  let tail = options.tail;
  for (let lostMs = 0; ; ) {
    try {
      if (await readOnce(client, id, { ...options, tail, after: seen, onLine: (seq) => (seen = Math.max(seen, seq)) }))
        return;
      lostMs = 0;
    } catch (error) {
      if (!isOutage(error) || options.signal.aborted || lostMs >= OUTAGE_MS) throw error;
    }
    lostMs += QUIET_MS;
    tail = undefined;
    await Bun.sleep(QUIET_MS);
  }
}

type Reading = LogOptions & { after: number; onLine: (seq: number) => void };

/** Returns true if no more lines will come, or no later lines were requested. */
async function readOnce(client: Client, id: string, reading: Reading): Promise<boolean> {
  const { follow, upTo, tail, json, signal, after, onLine } = reading;
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const query = `?tail=${tail ?? "all"}&stream=all`;
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
  else if (line.continues) (line.stream === "stderr" ? process.stderr : process.stdout).write(line.line);
  else if (line.stream === "stderr") note(line.line);
  else print(line.line);
}
