/** An ssh client that stays connected: lines in both directions, and one socket of the node on this machine. */
import { SERVING_BYTES } from "../../lib/json/outside.ts";
import { createTail } from "../../lib/text/tail.ts";
import { KIB, SECOND_MS } from "../../lib/units.ts";

/** Absolute paths of sockets: `local` on this machine, `remote` on the node. */
export type Forward = { local: string; remote: string };

/** For the front of the options, because ssh takes the first value of each. */
export const forwardArgs = ({ local, remote }: Forward) => [
  ...["-o", "ClearAllForwardings=no", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes"],
  ...["-L", `${field(local)}:${field(remote)}`],
];

/** ssh splits at colons, and replaces percent signs. */
const field = (path: string) => path.replaceAll(/[\\:]/g, "\\$&").replaceAll("%", "%%");

export type Channel = {
  lines: AsyncIterable<string>;
  write: (line: string) => void;
  close: () => void;
  /** The last line that the client printed as an error, once the lines have ended. */
  reason: () => Promise<string>;
};

const MOST_LINE = SERVING_BYTES;
const ERROR_BYTES = 4 * KIB;

type Surroundings = { env?: Record<string, string>; cwd?: string };

/** `onReached`: the node has answered, or the client has ended. */
export function openChannel(argv: readonly string[], onReached: () => void, around: Surroundings = {}): Channel {
  const child = Bun.spawn([...argv], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: "/", ...around.env, LC_ALL: "C" },
    ...(around.cwd === undefined ? {} : { cwd: around.cwd }),
  });
  void child.exited.then(onReached);
  const said = lastOf(child.stderr);
  const close = () => {
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), SECOND_MS).unref();
  };
  return {
    lines: linesOf(child.stdout, { onFirst: onReached, onFlood: close }),
    write(line) {
      try {
        child.stdin.write(`${line}\n`);
        child.stdin.flush();
      } catch {
        // the client has ended; the lines end too
      }
    },
    close,
    reason: async () => (await said).trim().split("\n").at(-1) || "the connection broke",
  };
}

/** The end of what the client prints as errors: the node can print there too, for as long as it runs. */
async function lastOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  const tail = createTail(ERROR_BYTES);
  for await (const chunk of stream) tail.push(chunk);
  return tail.text();
}

type Hooks = { onFirst: () => void; onFlood: () => void };

async function* linesOf(stream: ReadableStream<Uint8Array>, { onFirst, onFlood }: Hooks): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    onFirst();
    rest += decoder.decode(chunk, { stream: true });
    if (rest.length > MOST_LINE && !rest.includes("\n")) return onFlood(); // a node must not fill the memory of the server
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
