/** Programs from npm that tests need, installed below .tools by the versions of a bun.lock, with the first test that needs them. */
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { NotAvailable } from "./servers/process.ts";

const FILES = ["package.json", "bun.lock"];

/** `from`: the folder with package.json and bun.lock; `name`: of the folder below .tools. */
export function npmPackages(from: string, name: string) {
  const folder = resolve(import.meta.dir, "../.tools", name);
  const installed = (path: string) => join(folder, "node_modules", path);
  /** Throws NotAvailable if the packages cannot be downloaded. */
  async function install(): Promise<void> {
    const wanted = FILES.map((file) => readFileSync(join(from, file), "utf8")).join("");
    const stamp = installed(".verk-lock");
    if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
    mkdirSync(folder, { recursive: true });
    for (const file of FILES) copyFileSync(join(from, file), join(folder, file));
    const argv = [process.execPath, "install", "--frozen-lockfile", "--ignore-scripts"];
    const child = Bun.spawn(argv, { cwd: folder, stdout: "ignore", stderr: "pipe" });
    const problem = await new Response(child.stderr).text();
    if ((await child.exited) !== 0) throw new NotAvailable(name, problem.trim().split("\n").at(-1) ?? "");
    writeFileSync(stamp, wanted);
  }
  return { folder, installed, install };
}
