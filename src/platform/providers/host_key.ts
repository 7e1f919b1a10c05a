/** Asks a node for its host key. The answer proves nothing yet: the owner of the region compares the fingerprint. */
import { isIPv6 } from "node:net";
import { KIB, SECOND_MS } from "../../lib/units.ts";
import { readUpTo } from "../network/answer_body.ts";
import { Unreachable } from "./types.ts";

const TYPES = ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"];
const TIMEOUT_S = 10;
const MOST_BYTES = 64 * KIB;

/** The type and the base64 of the best key. `address`: an IP address that the network guard has allowed. */
export async function scanHostKey(address: string, port: number): Promise<string> {
  const family = isIPv6(address) ? "-6" : "-4";
  const argv = ["ssh-keyscan", family, "-T", String(TIMEOUT_S), "-t", "ed25519,ecdsa,rsa", "-p", String(port), address];
  const child = Bun.spawn(argv, { stdin: "ignore", stderr: "ignore", timeout: 2 * TIMEOUT_S * SECOND_MS });
  const { body } = await readUpTo(new Response(child.stdout), MOST_BYTES, new AbortController().signal);
  const key = bestKey(new TextDecoder().decode(body));
  if (key === undefined) throw new Unreachable("it shows no host key: is this the port of an SSH server?");
  return key;
}

/** Pure. Lines of ssh-keyscan: host, type, base64. */
export function bestKey(text: string): string | undefined {
  const lines = text.split("\n").map((line) => line.split(" "));
  const keys = TYPES.flatMap((type) => lines.filter(([, each]) => each === type));
  const [best] = keys;
  return best?.[2] === undefined ? undefined : `${best[1]} ${best[2].trim()}`;
}
