/**
 * Runs beside the user's code inside QuickJS and is equally untrusted. The text of `harness` is evaluated there: it may
 * use only the language and its own parameters, nothing else of this file.
 */
import type { Calling } from "./parameters.ts";

/**
 * The host's interface to the harness. Every text is JSON. An empty text means unfinished: call `settled` when the jobs
 * have run.
 */
export type Inside = {
  exports: (namespace: Record<string, unknown>) => string;
  adopt: (settings: string) => void;
  exchange: (request: string) => string;
  settled: () => string;
};
/** The inside's description of an export. */
export type Exported = {
  name: string;
  text: string;
  is_async: boolean;
  /** The public methods, if this is the class of an environment. Absent for a function. */
  methods?: string[];
};
export type Settings = {
  callings: Record<string, Calling>;
  params: Record<string, unknown>;
  seed: number;
  /** The parameters of each environment's tools, in order. */
  tools: Record<string, Record<string, Calling["parameters"]>>;
};

type InsideValue = { value: number } | { fault: { kind: string; message: string; stack: string } };
type Batch = {
  entry: string;
  prompts: unknown[];
  completions: unknown[];
  rows: Record<string, unknown>[];
  rollouts?: number[];
};
type Rollout = Record<string, (...args: unknown[]) => unknown>;
type Act = { op: "act"; rollout: number; seed: number } & (
  | { act: "reset"; row: Record<string, unknown> }
  | { act: "call"; name: string; arguments: Record<string, unknown> }
  | { act: "end" }
);
type Request =
  | ({ op: "begin" } & Batch)
  | { op: "batch" }
  | { op: "one"; index: number }
  | { op: "map"; from: number }
  | Act;

export function harness(print: (text: string, rest: number) => void): Inside {
  const { parse, stringify } = JSON;
  const { create, hasOwn, keys } = Object;
  const Later = Promise;
  const textOf = Function.prototype.call.bind(Function.prototype.toString) as (value: unknown) => string;
  const functions = new Map<string, (...args: unknown[]) => unknown>();
  const environments = new Map<string, new () => Rollout>();
  const rollouts = new Map<number, { of: string; instance: Rollout }>();
  let settings: Settings = { callings: {}, params: {}, seed: 0, tools: {} };
  let batch: Batch = { entry: "", prompts: [], completions: [], rows: [] };
  let kept = "";
  let reply = "";

  const seeded = (seed: number): (() => number) => {
    let state = (seed ^ (seed / 4294967296)) >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  };

  const written = (value: unknown): string => {
    if (typeof value === "string") return value;
    try {
      return (typeof value === "object" ? stringify(value) : undefined) ?? String(value);
    } catch {
      return "[cannot be shown]";
    }
  };
  const shown = (value: unknown): string => {
    const name = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
    const text = typeof value === "string" ? stringify(value.slice(0, 80)) : written(value);
    return `${/^[aeiou]/.test(name) ? "an" : "a"} ${name}: ${text.slice(0, 120)}`;
  };
  const say = (...values: unknown[]): void => {
    const line = `${values.map(written).join(" ")}\n`;
    print(stringify(line.slice(0, 65_536)), Math.max(0, line.length - 65_536));
  };

  const fault = (kind: string, message: string, stack = "") => ({ kind, message: message.slice(0, 2000), stack });
  const failure = (thrown: unknown) => {
    try {
      if (!(thrown instanceof Error)) return fault("exception", `the function threw ${shown(thrown)}`);
      if (thrown.name === "InternalError" && thrown.message === "out of memory") {
        return fault("memory", "the function ran out of memory");
      }
      const words = thrown.message === "" ? thrown.name : `${thrown.name}: ${thrown.message}`;
      return fault("exception", words, String(thrown.stack).slice(0, 8000));
    } catch {
      return fault("exception", "the function threw something that cannot be shown");
    }
  };

  const judged = (returned: unknown): InsideValue => {
    if (returned === null || returned === undefined)
      return { fault: fault("none", `the function returned ${returned}`) };
    const number = typeof returned === "boolean" || typeof returned === "bigint" ? Number(returned) : returned;
    if (typeof number !== "number") return { fault: fault("not_a_number", `the function returned ${shown(returned)}`) };
    if (Number.isFinite(number)) return { value: number };
    return { fault: fault("not_finite", `the function returned ${number}`) };
  };

  /** Reads at most one item more than expected, because an iterator may be endless. */
  const listed = (returned: unknown, count: number): InsideValue[] => {
    const all = (kind: string, message: string): InsideValue[] =>
      new Array(count).fill({ fault: fault(kind, message.slice(0, 300)) });
    const iterable = typeof returned === "object" && returned !== null && Symbol.iterator in returned;
    if (!iterable || returned instanceof Map || returned instanceof Set) {
      return all("not_a_number", `the function returned ${shown(returned)} and not an array of ${count} numbers`);
    }
    const taken: unknown[] = [];
    for (const value of returned as Iterable<unknown>) {
      taken.push(value);
      if (taken.length > count) break;
    }
    if (taken.length === count) return taken.map(judged);
    const got = Array.isArray(returned) ? returned.length : taken.length < count ? taken.length : `more than ${count}`;
    return all("wrong_length", `the function returned ${got} values for ${count} completions`);
  };

  const call = (inputs: Record<string, unknown>, columns: Record<string, unknown>): unknown => {
    const calling = settings.callings[batch.entry]!;
    const everything = { ...settings.params, ...columns, ...inputs };
    const values = calling.parameters.map((place) => {
      if (place.kind === "object") return everything;
      const isPresent = hasOwn(everything, place.name);
      if (place.required && !isPresent) {
        const have = Object.keys(columns).sort().slice(0, 20).join(", ") || "no columns";
        throw new TypeError(
          `${batch.entry} needs \`${place.name}\`, which is neither a column nor a parameter. The rows have: ${have}`,
        );
      }
      return isPresent ? everything[place.name] : undefined;
    });
    return functions.get(batch.entry)!(...values);
  };
  const together = ({ prompts, completions, rows, rollouts: from }: Omit<Batch, "entry">): unknown => {
    // A column may be named as what every object inherits.
    const columns: Record<string, unknown[]> = create(null);
    const column = (name: string) => rows.map((row) => (hasOwn(row, name) ? (row[name] ?? null) : null));
    for (const row of rows) for (const name of keys(row)) columns[name] ??= column(name);
    const inputs = { prompts: [...prompts], completions: [...completions], rows: [...rows] };
    return call(from ? { ...inputs, environments: from.map(instanceOf) } : inputs, columns);
  };
  const instanceOf = (rollout: number) => rollouts.get(rollout)?.instance;
  const alone = (index: number): unknown => {
    const row = batch.rows[index]!;
    const inputs = { prompt: batch.prompts[index], completion: batch.completions[index], row };
    return call(batch.rollouts ? { ...inputs, environment: instanceOf(batch.rollouts[index]!) } : inputs, row);
  };

  const isThenable = (value: unknown): value is PromiseLike<unknown> =>
    typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
  const answer = (value: unknown): void => {
    reply = stringify(value);
  };
  /** Finishes at once, or later for a promise. */
  const finish = (make: () => unknown, ok: (value: unknown) => unknown, failed: (thrown: unknown) => unknown): void => {
    try {
      const returned = make();
      if (!isThenable(returned)) answer(ok(returned));
      else
        Later.resolve(returned)
          .then((value) => answer(ok(value)))
          .then(undefined, (thrown) => answer(failed(thrown)));
    } catch (thrown) {
      answer(failed(thrown));
    }
  };

  const each = async (): Promise<InsideValue[]> => {
    const values: InsideValue[] = [];
    for (let index = 0; index < batch.rows.length; index++) {
      try {
        const returned = alone(index);
        values.push(judged(isThenable(returned) ? await returned : returned));
      } catch (thrown) {
        const failed = failure(thrown);
        values.push({ fault: { ...failed, message: failed.message.slice(0, 300) } });
      }
    }
    return values;
  };
  const refused = (thrown: unknown) => ({ ok: false, error: failure(thrown) });

  const answerBatch = (whole: boolean): void => {
    const count = batch.rows.length;
    const ok = (values: unknown) => ({ ok: true, values });
    // An aborted call may have changed its arrays: the samples are read again before each is tried.
    const failed = (thrown: unknown) => {
      batch = parse(kept);
      return refused(thrown);
    };
    if (whole)
      finish(
        () => together(batch),
        (returned) => ok(listed(returned, count)),
        failed,
      );
    else finish(each, ok, refused);
  };
  const answerOne = (index: number, whole: boolean): void => {
    const { prompts, completions, rows, rollouts: from } = batch;
    const one = {
      prompts: [prompts[index]],
      completions: [completions[index]],
      rows: [rows[index]!],
      ...(from ? { rollouts: [from[index]!] } : {}),
    };
    finish(
      () => (whole ? together(one) : alone(index)),
      (returned) => ({ ok: true, value: whole ? listed(returned, 1)[0] : judged(returned) }),
      refused,
    );
  };

  const rowsFrom = (returned: unknown): unknown[] => {
    if (returned === null || returned === undefined) return [];
    const rows = Array.isArray(returned) ? returned : [returned];
    for (const row of rows)
      if (typeof row !== "object" || row === null || Array.isArray(row))
        throw new TypeError(`the function returned ${shown(row)} and not a row, an array of rows or null`);
    return rows;
  };
  const answerMap = (index: number): void =>
    finish(
      () => functions.get("resolve")!(batch.rows[index]),
      (returned) => ({ ok: true, results: [{ rows: rowsFrom(returned), fault: null }] }),
      refused,
    );

  /** The reward of a completion is that of its rollout. */
  const rewardOf =
    (name: string) =>
    (everything: Record<string, unknown>): unknown => {
      if (!hasOwn(everything, "environment"))
        throw new Error(`${name} scores rollouts alone, and this completion comes from none`);
      const instance = everything["environment"] as Rollout | undefined;
      if (!instance) throw new Error("the rollout was lost");
      if (!(instance instanceof environments.get(name)!)) return null;
      return (instance["getReward"] ?? instance["get_reward"])!.call(instance);
    };
  const observed = (value: unknown): string =>
    (value === undefined ? "undefined" : written(value)).slice(0, 60_000).toWellFormed();
  const toolsOf = (of: string): Record<string, Calling["parameters"]> => settings.tools[of] ?? {};

  const reset = ({ rollout, row }: Act & { act: "reset" }): unknown => {
    const name = String(row["environment"] ?? [...environments.keys()][0]);
    const Class = environments.get(name);
    if (!Class)
      throw new Error(
        `the column \`environment\` names ${shown(name)}. The environments are ${[...environments.keys()].join(", ")}`,
      );
    const instance = new Class();
    rollouts.set(rollout, { of: name, instance });
    return instance["reset"]!(row);
  };
  const callTool = ({ rollout, name, arguments: given }: Act & { act: "call" }): unknown => {
    const held = rollouts.get(rollout);
    if (!held) throw new Error("the rollout was lost");
    const parameters = hasOwn(toolsOf(held.of), name) ? toolsOf(held.of)[name] : undefined;
    if (!parameters)
      throw new Error(`there is no tool ${shown(name)}. The tools are ${keys(toolsOf(held.of)).join(", ")}`);
    const values = parameters.map((place) => (place.kind === "object" ? given : given[place.name]));
    const missing = parameters.find((place) => place.kind === "name" && place.required && !hasOwn(given, place.name));
    if (missing?.kind === "name") throw new TypeError(`${name} needs \`${missing.name}\``);
    return held.instance[name]!(...values);
  };
  const answerAct = (act: Act): void => {
    Math.random = seeded(act.seed);
    const acted = (text: string | null, failed = false) => ({ ok: true, acted: { text, failed, fault: null } });
    if (act.act === "end") {
      rollouts.delete(act.rollout);
      answer(acted(null));
    } else if (act.act === "reset")
      finish(
        () => reset(act),
        (text) => acted(text === undefined || text === null ? null : observed(text)),
        (thrown) => {
          rollouts.delete(act.rollout);
          return refused(thrown);
        },
      );
    else
      finish(
        () => callTool(act),
        (value) => acted(observed(value)),
        (thrown) => {
          const { kind, message } = failure(thrown);
          return kind === "memory" || !rollouts.has(act.rollout) ? refused(thrown) : acted(`Error: ${message}`, true);
        },
      );
  };

  const answerTo = (request: Request, text: string): void => {
    if (request.op === "act") {
      answerAct(request);
      return;
    }
    if (request.op === "begin") {
      batch = request;
      kept = text;
      answer({ ok: true });
      return;
    }
    if (request.op === "map") {
      answerMap(request.from); // an exchange costs little here: one row each
      return;
    }
    const whole = settings.callings[batch.entry]!.form === "batch";
    if (request.op === "one") answerOne(request.index, whole);
    else answerBatch(whole);
  };

  /** The methods of a class that may be called from outside, those of its bases first. Undefined for a function. */
  const methodsOf = ({ prototype }: { prototype?: object }): string[] | undefined => {
    if (!prototype) return undefined;
    const names: string[] = [];
    for (let at: object = prototype; at && at !== Object.prototype; at = Object.getPrototypeOf(at))
      names.unshift(
        ...Object.getOwnPropertyNames(at).filter((name) => typeof (prototype as Rollout)[name] === "function"),
      );
    return [...new Set(names)].filter((name) => name !== "constructor" && !name.startsWith("_"));
  };

  const console = { log: say, info: say, warn: say, error: say, debug: say };
  Object.assign(globalThis, { console, print: say });
  return {
    exports: (namespace) => {
      const exportedFunctions: Exported[] = [];
      const byName = Object.keys(namespace).filter((name) => name !== "default");
      for (const exported of [...byName, "default"]) {
        const value = namespace[exported];
        if (typeof value !== "function") continue;
        const name = exported === "default" ? "reward" : exported;
        const methods = methodsOf(value as { prototype?: object });
        if (methods?.includes("reset") && exported !== "default") {
          environments.set(name, value as unknown as new () => Rollout);
          if (methods.includes("getReward") || methods.includes("get_reward"))
            functions.set(name, rewardOf(name) as () => unknown);
          exportedFunctions.push({ name, text: "", is_async: false, methods });
          continue;
        }
        if (exported !== "default" && !/^reward$|_reward$|Reward$|^reward_|^resolve$/.test(name)) continue;
        if ([...functions.values()].includes(value as () => unknown) || functions.has(name)) continue;
        functions.set(name, value as () => unknown);
        const text = textOf(value);
        exportedFunctions.push({ name, text, is_async: /^async\b/.test(text) });
      }
      return stringify(exportedFunctions);
    },
    adopt: (text) => {
      settings = parse(text);
      Math.random = seeded(settings.seed);
    },
    exchange: (text) => {
      reply = "";
      answerTo(parse(text), text);
      return reply;
    },
    settled: () => reply,
  };
}
