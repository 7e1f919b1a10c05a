import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const PR_SET_NO_NEW_PRIVS = 38;

/** A filter cannot be removed, so another process tries it. */
const SCRIPT = `
  import { createServer, connect } from "node:net";
  import { NR, syscall } from "${join(import.meta.dir, "../../native/syscalls.ts")}";
  import { giveUpUnixSockets } from "${join(import.meta.dir, "seal.ts")}";
  const AF_INET = 2, AF_UNIX = 1, STREAM = 1;
  syscall(NR.prctl, ${PR_SET_NO_NEW_PRIVS}, 1);
  const before = syscall(NR.socket, AF_UNIX, STREAM, 0) >= 0;
  const sealed = giveUpUnixSockets();
  console.log(JSON.stringify({ before, sealed, unix: syscall(NR.socket, AF_UNIX, STREAM, 0), inet: syscall(NR.socket, AF_INET, STREAM, 0) >= 0 }));
`;

test("after the seal a process opens no unix socket, and still connects to the internet", async () => {
  const path = join(dir, "sealed.ts");
  await Bun.write(path, SCRIPT);
  const child = Bun.spawn([process.execPath, path], { stdout: "pipe" });
  const EAFNOSUPPORT = 97;
  expect(JSON.parse(await new Response(child.stdout).text())).toEqual({
    before: true,
    sealed: true,
    unix: -EAFNOSUPPORT,
    inet: true,
  });
});
