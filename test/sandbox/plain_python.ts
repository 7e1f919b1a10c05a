/** Plain Pyodide without gate, image or process, to test the harness and the built-in rewards. */
import { join } from "node:path";
import { loadPyodide } from "pyodide";
import { harnessOf } from "../../scripts/bundle/python.ts";
import type { Fault, Rejection } from "../../src/lib/rewards/contract.ts";

const ROOT = join(import.meta.dir, "../..");

export type Value = { value?: number; fault?: Fault };
export type Reply = {
  ok: boolean;
  entrypoints?: { name: string; signature: string; form: string; is_async: boolean; line: number }[];
  values?: Value[];
  value?: Value;
  error?: Rejection & Fault;
};
export type Row = Record<string, unknown>;
export type Loaded = { params?: Row; seed?: number };

export async function openPlainPython() {
  const python = await loadPyodide({ indexURL: join(ROOT, "node_modules/pyodide") });
  python.setStdout({ batched: () => {} });
  python.setStderr({ batched: () => {} });
  python.runPython(harnessOf(ROOT));
  const exchange = (request: unknown): Reply => {
    python.FS.writeFile("/tmp/in.json", JSON.stringify(request));
    python.runPython("_verk.step()");
    return JSON.parse(python.FS.readFile("/tmp/out.json", { encoding: "utf8" }) as unknown as string) as Reply;
  };
  const load = (source: string, { params = {}, seed = 1 }: Loaded = {}): Reply =>
    exchange({ op: "load", source, params, seed });
  const begin = (rows: readonly Row[], entry = "reward"): Reply =>
    exchange({
      op: "begin",
      entry,
      prompts: rows.map(({ prompt = "p" }) => prompt),
      completions: rows.map(({ completion = "c" }) => completion),
      rows,
    });
  const batch = (): Reply => exchange({ op: "batch" });
  const one = (index: number): Reply => exchange({ op: "one", index });
  /** The values of one call with all rows, or the `kind` of a fault. */
  const score = (source: string, rows: readonly Row[], loaded: Loaded = {}): (number | string | undefined)[] => {
    const answer = load(source, loaded);
    if (!answer.ok) throw new Error(`${answer.error?.kind}: ${answer.error?.message}`);
    begin(rows);
    const reply = batch();
    if (!reply.ok) throw new Error(`${reply.error?.message} (line ${reply.error?.line})`);
    return (reply.values ?? []).map(({ value, fault }) => value ?? fault?.kind);
  };
  return { exchange, load, begin, batch, one, score };
}
