/** A server in a jail: each line of its output is a message. */
import { OutsideError, readOutside } from "../../lib/json/outside.ts";
import { takingTurns } from "../../lib/turns.ts";
import { MIB } from "../../lib/units.ts";
import type { JailIo } from "../jail/jail.ts";
import type { JailEnd, JailRun } from "../jail/types.ts";
import { type Listener, McpError, type Transport } from "./client.ts";
import { MESSAGE, MESSAGE_BYTES } from "./forms.ts";

const MAX_OUTPUT_BYTES = 64 * MIB;
const MAX_LINES = 20_000;
const STDERR_CHARACTERS = 1_000;
const NEWLINE = 0x0a;

/** Starts the command of the server. Its input stays open until the jail is stopped. */
export type StartServer = (io: JailIo) => JailRun | Promise<JailRun>;

export async function stdioTransport(start: StartServer): Promise<Transport> {
  let listener: Listener | undefined;
  const errors = new TextDecoder();
  let stderr = "";
  let bytes = 0;
  const turn = takingTurns();
  let count = 0;
  const lines = lineReader(async (line) => {
    await turn();
    if (++count > MAX_LINES) return;
    // A line that is no message is skipped, as a server may print others.
    try {
      listener?.message(readOutside(MESSAGE, line));
    } catch (error) {
      if (!(error instanceof OutsideError)) throw error;
    }
  });
  const run = await start({
    stdin: "open",
    async onOutput(output) {
      if (output.stream === "stderr") {
        stderr = (stderr + errors.decode(output.bytes, { stream: true })).slice(-STDERR_CHARACTERS);
        return;
      }
      bytes += output.bytes.byteLength;
      const isWhole = bytes <= MAX_OUTPUT_BYTES && count <= MAX_LINES && (await lines.push(output.bytes));
      if (isWhole && count <= MAX_LINES) return;
      listener?.end(new McpError("sent too much output, and was ended"));
      void run.stop();
    },
  });
  void run.ended.then((end) => listener?.end(new McpError(endText(end, stderr))));
  return {
    listen(each) {
      listener = each;
    },
    async send(message) {
      const written = run.input?.write(`${JSON.stringify(message)}\n`);
      await run.input?.flush();
      await written;
    },
    async close() {
      await run.stop();
    },
  };
}

function endText({ reason, exitCode, message }: JailEnd, stderr: string): string {
  const how = reason === "exited" ? `ended with exit code ${exitCode}` : `ended: ${message || reason}`;
  const last = stderr.trim();
  return last === "" ? how : `${how}. Its last output: ${last}`;
}

/** `push` returns false if a line has become too long. */
function lineReader(onLine: (line: Uint8Array) => Promise<void>) {
  let parts: Uint8Array[] = [];
  let length = 0;
  return {
    async push(chunk: Uint8Array): Promise<boolean> {
      let from = 0;
      for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
        const line = Buffer.concat([...parts, chunk.subarray(from, at)]);
        parts = [];
        length = 0;
        from = at + 1;
        if (line.byteLength > MESSAGE_BYTES) return false;
        if (line.byteLength > 0) await onLine(line);
      }
      const rest = chunk.subarray(from);
      length += rest.byteLength;
      if (rest.byteLength > 0) parts.push(rest);
      return length <= MESSAGE_BYTES;
    },
  };
}
