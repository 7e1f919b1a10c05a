/**
 * The program of gained.test.ts: a reward process whose attacker has escaped the interpreter and can run any
 * JavaScript. `gained [omitted layer…] -- CODE` prints the result of the code.
 */
import { writeSync } from "node:fs";
import { addressOf, cString, NR, syscall } from "../../src/native/syscalls.ts";
import { lockSteps } from "../../src/workers/reward/lockdown.ts";

const [, , ...args] = process.argv;
const split = args.indexOf("--");
const without = args.slice(0, split);
for (const [layer, hold] of lockSteps(256 << 20)) {
  if (!without.includes(layer) && !hold()) throw new Error(`${layer} does not hold here`);
}
const attack = new Function("syscall", "NR", "addressOf", "cString", `return (${args[split + 1]})`);
let result: unknown;
try {
  result = attack(syscall, NR, addressOf, cString);
} catch (error) {
  result = `refused: ${(error as Error).message}`;
}
writeSync(1, `${JSON.stringify({ result })}\n`);
process.exit(0);
