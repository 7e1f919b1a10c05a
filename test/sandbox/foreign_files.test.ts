// tier: all (many jails)
/** src/sandbox/files: the server works in directories that another process may change meanwhile. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { AppError } from "../../src/lib/errors.ts";
import { openCollection } from "../../src/sandbox/files/collect.ts";
import { type ForeignDir, jobDirAt, jobsDir } from "../../src/sandbox/files/foreign_dir.ts";
import { makeSandboxDir } from "../../src/sandbox/files/sandbox_dir.ts";
import { openStage } from "../../src/sandbox/files/stage.ts";
import { contentOf, namesIn, openToAppend, readText, removeTree } from "../../src/sandbox/files/trees.ts";
import { tempDir } from "../harness.ts";
import { isRoot, NOBODY } from "./nobody.ts";
import { openSwapper } from "./swap_kit.ts";

let data: string;
let outside: string;
let work: ForeignDir;
let workspace: string;

beforeEach(async () => {
  data = realpathSync(tempDir());
  outside = join(data, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "file"), "OUTSIDE");
  work = jobsDir(data).below("job_1", "work");
  await makeSandboxDir(work, undefined);
  workspace = join(data, "jobs/job_1/work/root/workspace");
});
afterEach(() => {
  Bun.spawnSync(["chmod", "-R", "u+rwx", data]);
  rmSync(data, { recursive: true, force: true });
});

const put = (path: string, text = "inside") => {
  mkdirSync(join(workspace, path, ".."), { recursive: true });
  writeFileSync(join(workspace, path), text);
};
const refusal = (below: string): string => {
  try {
    openCollection(work, below).close();
    return "opened";
  } catch (error) {
    if (error instanceof AppError) return error.message;
    throw error;
  }
};
async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of chunks) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

describe("the top directory of a collection", () => {
  test("a link, a file, a FIFO and nothing are refused by name, at every depth", () => {
    put("a/b/file");
    symlinkSync(outside, join(workspace, "link"));
    symlinkSync("a", join(workspace, "inner"));
    Bun.spawnSync(["mkfifo", join(workspace, "fifo")]);
    expect(refusal("a/b")).toBe("opened");
    expect(refusal("a/b/file")).toBe("/workspace/a/b/file is a file, not a directory");
    expect(refusal("link")).toBe("/workspace/link is a symbolic link, not a directory");
    expect(refusal("link/below")).toBe("/workspace/link is a symbolic link, not a directory");
    expect(refusal("inner/b")).toBe("/workspace/inner is a symbolic link, not a directory");
    expect(refusal("fifo")).toBe("/workspace/fifo is neither a file nor a directory, not a directory");
    expect(refusal("a/none")).toBe("/workspace/a/none is missing");
  });

  test("a workspace that is a link itself is refused", () => {
    rmSync(workspace, { recursive: true });
    symlinkSync(outside, workspace);
    expect(() => openCollection(work, "output")).toThrow("ENOTDIR");
  });

  test("names with .. or a slash cannot be requested", () => {
    for (const name of ["..", ".", "", "a/b", "a\0b"]) expect(() => jobsDir(data).below(name)).toThrow(RangeError);
    expect(() => jobDirAt(data, "jobs/../models")).toThrow(RangeError);
    expect(() => jobDirAt(data, "models/x")).toThrow(RangeError);
  });
});

test("links, FIFOs, sockets and names that are not UTF-8 are named and never opened", async () => {
  put("out/one");
  linkSync(join(workspace, "out/one"), join(workspace, "out/two"));
  symlinkSync(join(outside, "file"), join(workspace, "out/link"));
  symlinkSync(outside, join(workspace, "out/dir"));
  Bun.spawnSync(["mkfifo", join(workspace, "out/fifo")]);
  writeFileSync(Buffer.concat([Buffer.from(join(workspace, "out/")), Buffer.of(0xff)]), "x");
  const socket = createServer().listen(join(workspace, "out/socket"));
  const collection = openCollection(work, "out");
  try {
    const { files, skipped, hidden } = await collection.scan();
    expect([...files.keys()].sort()).toEqual(["one", "two"]);
    expect([...skipped.keys()].sort()).toEqual(["dir", "fifo", "link", "socket", "\uFFFD"]);
    expect(hidden).toBe(false);
    for (const name of ["link", "dir", "fifo", "socket", "dir/file"])
      expect(collection.faultOf(name)).toMatch(/is (a symbolic link|neither a file nor a directory), not a file/);
    expect(await textOf(collection.content("one", 6))).toBe("inside");
  } finally {
    collection.close();
    socket.close();
  }
});

test.skipIf(!isRoot)("device nodes are named and never opened", async () => {
  mkdirSync(join(workspace, "out"));
  expect(Bun.spawnSync(["mknod", join(workspace, "out/zero"), "c", "1", "5"]).success).toBe(true);
  const collection = openCollection(work, "out");
  const { files, skipped } = await collection.scan();
  expect([[...files.keys()], [...skipped.keys()]]).toEqual([[], ["zero"]]);
  expect(collection.faultOf("zero")).toContain("not a file");
  collection.close();
});

/** Runs `work` as an ordinary user, because root reads files of any mode. */
async function asOrdinaryUser(work: () => Promise<void>) {
  if (!isRoot) return work();
  Bun.spawnSync(["chown", "-R", `${NOBODY}:${NOBODY}`, data]);
  process.setegid?.(NOBODY);
  process.seteuid?.(NOBODY);
  try {
    await work();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}

test("directories and files of mode 000 are reported, not skipped silently, and can be removed", async () => {
  put("out/closed/file");
  put("out/secret");
  put("out/open");
  await asOrdinaryUser(async () => {
    chmodSync(join(workspace, "out/closed"), 0);
    chmodSync(join(workspace, "out/secret"), 0);
    const collection = openCollection(work, "out");
    const { files, hidden } = await collection.scan();
    expect([[...files.keys()].sort(), hidden]).toEqual([["open", "secret"], true]);
    expect(collection.faultOf("secret")).toBe("its mode does not allow reading");
    collection.close();
    chmodSync(join(workspace, "out"), 0);
    expect(refusal("out")).toContain("/workspace/out cannot be read: its mode");
    await removeTree(work);
  });
  expect(existsSync(join(data, "jobs/job_1/work"))).toBe(false);
});

describe("staging", () => {
  test("a link in the place of a directory or of a file is not followed", async () => {
    symlinkSync(outside, join(workspace, "v"));
    expect(() => openStage(work, "v", undefined)).toThrow("/workspace/v cannot be created");
    const stage = openStage(work, "", undefined);
    symlinkSync(join(outside, "file"), join(workspace, "leaf"));
    const fill = async (temp: string) => {
      writeFileSync(temp, "new");
      return "copied" as const;
    };
    await expect(stage.put("v/file", 0o644, fill)).rejects.toThrow("/workspace/v/file cannot be created");
    expect(await stage.put("leaf", 0o644, fill)).toBe("copied");
    stage.close();
    expect(readFileSync(join(workspace, "leaf"), "utf8")).toBe("new");
    expect([readdirSync(outside), readFileSync(join(outside, "file"), "utf8")]).toEqual([["file"], "OUTSIDE"]);
    expect(readdirSync(join(data, "jobs/job_1/work/incoming"))).toEqual([]);
  });

  test("a shared file keeps its mode", async () => {
    const stored = join(data, "stored");
    writeFileSync(stored, "s", { mode: 0o600 });
    const stage = openStage(work, 0, undefined);
    await stage.put("d/s", 0o444, async (temp) => {
      linkSync(stored, temp);
      return "shared";
    });
    stage.close();
    const mode = Bun.spawnSync(["stat", "-c", "%a %h", stored]).stdout.toString().trim();
    expect(mode).toBe("600 2");
  });
});

describe("single files", () => {
  test("a link is neither read nor written through", async () => {
    const job = jobsDir(data).below("job_1");
    symlinkSync(join(outside, "file"), join(data, "jobs/job_1/log.ndjson"));
    expect(() => openToAppend(job, "log.ndjson")).toThrow("ELOOP");
    await expect(readText(job, "log.ndjson", 100)).rejects.toThrow("is a symbolic link");
    await expect(textOf(contentOf(job, "log.ndjson"))).rejects.toThrow("is a symbolic link");
    expect(await readText(job, "none", 100)).toBeUndefined();
    writeFileSync(join(data, "jobs/job_1/long"), "x".repeat(101));
    await expect(readText(job, "long", 100)).rejects.toThrow("has 101 bytes");
  });
});

describe("while a program swaps names", () => {
  const SWAPS = 5_000;
  const evil = () => {
    put("out/dir/file");
    symlinkSync(outside, join(workspace, "evil"));
    return openSwapper(join(data, "swapper"), workspace);
  };

  test("C1: a top that becomes a link and back is opened as a directory, or not at all", async () => {
    const swapper = evil();
    const seen: Record<string, number> = {};
    await swapper.atLeast(SWAPS, "out", "evil", async () => {
      for (let i = 0; i < 2_000; i++) {
        let outcome = "refused";
        try {
          const collection = openCollection(work, "out");
          outcome = [...(await collection.scan()).files.keys()].join();
          collection.close();
        } catch (error) {
          if (!(error instanceof AppError)) throw error;
        }
        seen[outcome] = (seen[outcome] ?? 0) + 1;
      }
    });
    expect(Object.keys(seen).sort()).toEqual(["dir/file", "refused"]);
  }, 300_000);

  test("C1: a directory that becomes a link between the walk and the reading gives nothing of the outside", async () => {
    put("out/dir/file");
    symlinkSync(outside, join(workspace, "out/evil"));
    const collection = openCollection(work, "out");
    const swapper = openSwapper(join(data, "swapper"), join(workspace, "out"));
    const seen = new Set<string>();
    await swapper.atLeast(SWAPS, "dir", "evil", async () => {
      for (let i = 0; i < 2_000; i++) {
        const { files } = await collection.scan();
        for (const path of ["dir/file", ...files.keys()])
          try {
            seen.add(await textOf(collection.content(path, 100)));
          } catch (error) {
            if (!(error instanceof AppError)) throw error;
            seen.add("refused");
          }
      }
    });
    collection.close();
    expect([...seen].sort()).toEqual(["inside", "refused"]);
  }, 300_000);

  test("C1: directories behind a name that becomes a link are removed, and the outside stays", async () => {
    const swapper = evil();
    const names = Array.from({ length: 400 }, (_, i) => `d${i}`);
    for (const name of names) {
      put(`out/${name}/file`);
      mkdirSync(join(outside, name));
      writeFileSync(join(outside, name, "file"), "OUTSIDE");
    }
    const out = jobsDir(data).below("job_1", "work", "root", "workspace", "out");
    let refused = 0;
    const swaps = await swapper.during("out", "evil", async () => {
      for (const name of [...names, ...names, ...names])
        await removeTree(out.below(name)).catch((error) => {
          if (!["ELOOP", "ENOTDIR"].includes(error.code)) throw error; // the parent was a link at that moment
          refused++;
        });
    });
    expect(swaps).toBeGreaterThan(100);
    expect(refused).toBeGreaterThan(0);
    expect(names.filter((name) => !existsSync(join(outside, name, "file")))).toEqual([]);
    await removeTree(work);
    expect(await namesIn(jobsDir(data).below("job_1"))).toEqual([]);
    expect(names.filter((name) => !existsSync(join(outside, name, "file")))).toEqual([]);
  }, 300_000);
});

test("M7: 20,000 files are scanned without delaying other requests", async () => {
  mkdirSync(join(workspace, "out"));
  Bun.spawnSync(["perl", "-e", "chdir shift; for (1..20000) { open F, '>', $_ or die }", join(workspace, "out")]);
  let turns = 0;
  const watch = setInterval(() => turns++, 1);
  const collection = openCollection(work, "out");
  const { files } = await collection.scan();
  collection.close();
  clearInterval(watch);
  expect(files.size).toBe(20_000);
  expect(turns).toBeGreaterThan(2);
}, 120_000);
