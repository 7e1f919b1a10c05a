import { afterAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  existsSync,
  linkSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { headerDirs, headerNumbers } from "../../../scripts/syscall_headers.ts";
import { addressOf, cString, NR, syscall } from "../syscalls.ts";
import { PLATFORMS, pageBytes, platform, platformOf, syscallNumbers } from "./index.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-platform-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe.each(Object.values(PLATFORMS))("$name", (target) => {
  const dirs = headerDirs(target);
  test.skipIf(dirs === undefined)("the numbers of system calls are those of the kernel headers on this machine", () => {
    const table = syscallNumbers(target.arch) as Readonly<Record<string, number | undefined>>;
    const headers = headerNumbers(dirs ?? []);
    expect(headers.size).toBeGreaterThan(250);
    // newer headers may have calls that the table does not have yet
    const known = [...headers].filter(([name]) => name in table);
    expect(known.length).toBeGreaterThan(250);
    expect(known.filter(([name, number]) => table[name] !== number)).toEqual([]);
    // older headers may lack the newest calls; their numbers are above all of theirs
    const newest = Math.max(...headers.values());
    const unknown = Object.entries(table).filter(
      ([name, number]) => !headers.has(name) && (number ?? Infinity) < newest,
    );
    expect(unknown).toEqual([]);
  });

  test("a seccomp filter sees the ELF machine as a 64-bit little-endian architecture", () => {
    expect(target.seccompArch).toBe(0xc0000000 + target.elfMachine);
  });

  test("process.arch names it", () => expect(platformOf(target.arch)).toBe(target));
});

test("an architecture that is not supported is named", () => {
  expect(() => platformOf("riscv64")).toThrow("does not run on riscv64");
});

test("calls that arm64 lacks are absent, not zero", () => {
  const { poll, epoll_wait, fork, vfork, open } = syscallNumbers("arm64");
  expect({ poll, epoll_wait, fork, vfork, open }).toEqual({
    poll: undefined,
    epoll_wait: undefined,
    fork: undefined,
    vfork: undefined,
    open: undefined,
  });
  expect(syscallNumbers("x64").poll).toBe(7);
});

describe("on this machine", () => {
  test("the executable has the ELF machine, the loader is there, a page is what the system says", () => {
    const header = Buffer.alloc(20);
    const fd = openSync("/proc/self/exe", "r");
    readSync(fd, header, 0, 20, 0);
    closeSync(fd);
    expect(header.readUInt16LE(18)).toBe(platform.elfMachine);
    expect(existsSync(platform.loader)).toBe(true);
    expect(pageBytes()).toBe(Number(Bun.spawnSync(["getconf", "PAGESIZE"]).stdout.toString()));
  });

  test("struct stat has the mode and the number of links where the platform says", () => {
    const [file, twin] = [join(dir, "file"), join(dir, "twin")];
    writeFileSync(file, "");
    linkSync(file, twin);
    const [path, bytes] = [cString(file), Buffer.alloc(144)];
    expect(syscall(NR.newfstatat, -100, addressOf(path), addressOf(bytes), 0)).toBe(0);
    const { mode, links, linksBytes } = platform.stat;
    expect(bytes.readUInt32LE(mode)).toBe(statSync(file).mode);
    expect(linksBytes === 8 ? Number(bytes.readBigUInt64LE(links)) : bytes.readUInt32LE(links)).toBe(2);
  });
});
