/** Runs one jail in a separate process: `bun jail_parent.ts` reads the spec as JSON and prints how the jail ended. */
import { type Jail, startJailed } from "../../src/sandbox/jail/jail.ts";
import { jailSupport } from "../../src/sandbox/jail/support.ts";
import type { JailSpec } from "../../src/sandbox/jail/types.ts";

const { jail, spec } = (await Bun.stdin.json()) as { jail: Jail; spec: JailSpec };
const support = await jailSupport(jail);
let output = "";
const running = startJailed(jail, spec, {
  onOutput: ({ bytes }) => {
    output += Buffer.from(bytes).toString();
  },
});
console.log(JSON.stringify({ helper: running.pid }));
const end = await running.ended;
console.log(JSON.stringify({ uid: process.getuid?.(), support, end, output }));
