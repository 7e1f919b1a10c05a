/** A command in a jail that writes 200 MB, of which a thousand bytes are kept. */
import { rmSync } from "node:fs";
import { openYard } from "../sandbox/jail_kit.ts";
import { growthBy } from "./growth.ts";

const yard = openYard();
const io = { maxBytes: 1000 };
await yard.shell("head -c 5000000 /dev/zero", { io }); // whatever is allocated once
let ran: Awaited<ReturnType<typeof yard.shell>> | undefined;
const growthBytes = await growthBy(async () => {
  ran = await yard.shell("head -c 200000000 /dev/zero; echo done >&2", { io });
});
rmSync(yard.dir, { recursive: true, force: true });
console.log(JSON.stringify({ ran: { ...ran, stdout: ran?.stdout.length }, growthBytes }));
