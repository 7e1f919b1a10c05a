// tier: all (networks of the detectors)
/** No network but the loopback, and nothing can be written but the data directory. */
import { expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { drawn } from "../detection/drawn.ts";
import { tempDir } from "../harness.ts";

/** `$1` stays as it is: everything else of the file system can only be read. */
const SHUT = `ip link set lo up && mount --bind "$1" "$1" && mount -o remount,ro,bind / &&
  if mountpoint -q /tmp; then mount -o remount,ro,bind /tmp; fi`;
const inside = (dir: string, then: string, ...args: string[]) => [
  ...["unshare", "--net", "--mount", "sh", "-c", `${SHUT} && ${then}`, "sh", dir],
  ...args,
];
const probed = tempDir();
mkdirSync(probed, { recursive: true });
const isAllowed = Bun.which("unshare") !== null && Bun.spawnSync(inside(probed, "true")).success;
rmSync(probed, { recursive: true, force: true });

test.skipIf(!isAllowed)(
  "images, speech and batches are scored without outbound connections or writes outside the data directory",
  async () => {
    const dir = join(tempDir(), "data");
    mkdirSync(dir, { recursive: true });
    await drawn(300, 280, { r: 255, g: 255, b: 255 }).jpeg().toFile(join(dir, "white.jpg"));
    const program = join(import.meta.dir, "../aside/detecting_alone.ts");
    const child = Bun.spawn(inside(dir, 'exec "$2" "$3" "$1"', process.execPath, program), { stderr: "pipe" });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    expect(out, err).toStartWith("{");
    const { outside, away, found, warned } = JSON.parse(out);
    expect([outside, away]).toEqual(["EROFS", expect.stringMatching(/Refused|Unreach|Open|UNREACH|Connection/)]);
    expect(found).toEqual(["ai", "uncertain", 2]); // drawn tones are no speech
    expect(warned).toEqual([]);
    rmSync(join(dir, ".."), { recursive: true, force: true });
  },
  60_000,
);
