/** Loads the user's text: returns the functions that can be called, or the reason why there are none. */
import type { QuickJSHandle } from "quickjs-emscripten-core";
import { type Entrypoint, type Environment, RESOLVE, type Rejection } from "../../../lib/rewards/contract.ts";
import type { HarnessRequest } from "../interpreter.ts";
import { lineOf, toolsOf } from "./environment.ts";
import type { Exported, Settings } from "./harness.ts";
import { type Calling, callingOf, FORMS } from "./parameters.ts";
import type { Location } from "./positions.ts";
import type { Prepared } from "./source.ts";
import { ask, engineFault, FILE, innermost, runJobs, type Vm } from "./vm.ts";

const MOST_ENTRYPOINTS = 64;

type LoadReply = { ok: true; entrypoints: Entrypoint[]; environments: Environment[] } | { ok: false; error: Rejection };

export function loadCode(
  vm: Vm,
  request: HarnessRequest & { op: "load" },
  prepared: Prepared & { ok: true },
): LoadReply {
  if (prepared.code.includes("\0")) return rejected("syntax", "the code contains a NUL character");
  const namespace = evaluate(vm, prepared);
  if ("error" in namespace) return { ok: false, error: namespace.error };
  const exported = ask(vm, "exports", namespace.value);
  if ("failed" in exported) return rejected("exception", exported.failed.message);
  const all = JSON.parse(exported.text) as Exported[];
  if (request.kind === "resolver") return loadResolver(vm, request, all);
  const functions = all.filter(({ name, methods }) => name !== RESOLVE && !methods);
  const { environments, tools, rewards } = environmentsOf(request.source, all);
  if (functions.length + rewards.length === 0)
    return environments[0] ? unrewarded(request.source, environments[0]) : nothing(request.source);
  if (functions.length > MOST_ENTRYPOINTS) {
    return rejected(
      "signature",
      `There are ${functions.length} reward functions; at most ${MOST_ENTRYPOINTS} are allowed.`,
    );
  }
  const callings: Record<string, Calling> = {};
  const entrypoints: Entrypoint[] = [];
  for (const name of rewards) {
    const text = `${name}.getReward()`;
    callings[name] = { form: "sample", parameters: [{ kind: "object" }], text };
    entrypoints.push({ name, signature: text, form: "sample", is_async: false, line: lineOf(request.source, name) });
  }
  for (const { name, text, is_async } of functions) {
    const calling = callingOf(name, text);
    const place = definition(request.source, name);
    if (typeof calling === "string") return rejected("signature", calling, place);
    callings[name] = calling;
    entrypoints.push({
      name: name.slice(0, 200),
      signature: calling.text,
      form: calling.form,
      is_async,
      line: place?.line ?? 0,
    });
  }
  const settings: Settings = { callings, params: request.params, seed: request.seed, tools };
  using text = vm.context.newString(JSON.stringify(settings));
  const adopted = ask(vm, "adopt", text);
  return "failed" in adopted
    ? rejected("exception", adopted.failed.message)
    : { ok: true, entrypoints: entrypoints.sort((a, b) => a.line - b.line), environments };
}

/** `rewards`: the environments that say their reward themselves. */
function environmentsOf(source: string, all: readonly Exported[]) {
  const environments: Environment[] = [];
  const tools: Settings["tools"] = {};
  const rewards: string[] = [];
  for (const { name, methods } of all) {
    if (!methods) continue;
    const byName = Object.entries(toolsOf(source, name, methods)).slice(0, MOST_ENTRYPOINTS);
    environments.push({ name, tools: byName.map(([, { described }]) => described) });
    tools[name] = Object.fromEntries(byName.map(([tool, { parameters }]) => [tool, parameters]));
    if (methods.includes("getReward") || methods.includes("get_reward")) rewards.push(name);
  }
  return { environments, tools, rewards };
}

const unrewarded = (source: string, { name }: Environment) =>
  rejected("signature", `\`${name}\` has no \`getReward()\` that returns one number.`, {
    line: lineOf(source, name),
    column: 1,
  });

const RESOLVER_FORMS =
  "`export function resolve(row)` that returns a row, an array of rows, or null to leave the row out";

function loadResolver(vm: Vm, { source, params, seed }: HarnessRequest & { op: "load" }, all: Exported[]): LoadReply {
  const resolver = all.find(({ name }) => name === RESOLVE);
  if (!resolver) return rejected("signature", `No function named \`resolve\` is exported. Write ${RESOLVER_FORMS}.`);
  const settings: Settings = { callings: {}, params, seed, tools: {} };
  using text = vm.context.newString(JSON.stringify(settings));
  const adopted = ask(vm, "adopt", text);
  if ("failed" in adopted) return rejected("exception", adopted.failed.message);
  const line = definition(source, RESOLVE)?.line ?? 0;
  return {
    ok: true,
    entrypoints: [{ name: RESOLVE, signature: `${RESOLVE}(row)`, form: "sample", is_async: resolver.is_async, line }],
    environments: [],
  };
}

type Evaluated = { value: QuickJSHandle } | { error: Rejection };

/** Returns the module's namespace. For a module with top-level `await` it is a promise. */
function evaluate(vm: Vm, prepared: Prepared & { ok: true }): Evaluated {
  const result = vm.context.evalCode(prepared.code, FILE, { type: "module" });
  if (result.error) return { error: thrown(vm, result.error, prepared) };
  const failed = runJobs(vm);
  if (failed !== null) return { error: { ...rejection("exception", failed.message), kind: kindOf(failed.kind) } };
  const state = vm.context.getPromiseState(result.value);
  if (state.type === "fulfilled") return { value: state.value };
  if (state.type === "rejected") return { error: thrown(vm, state.error, prepared) };
  return { error: rejection("exception", "the code awaits something that can never finish inside the sandbox") };
}

const kindOf = (kind: string): Rejection["kind"] => (kind === "timeout" || kind === "memory" ? kind : "exception");

function thrown(vm: Vm, error: QuickJSHandle, prepared: Prepared & { ok: true }): Rejection {
  const dumped: unknown = vm.context.dump(error);
  if (typeof dumped !== "object" || dumped === null || !("message" in dumped)) {
    return { ...rejection("exception", engineFault(vm, error).message) };
  }
  error.dispose();
  const { name, message, stack } = dumped as { name?: unknown; message: unknown; stack?: unknown };
  if (message === "out of memory") return rejection("memory", "the code ran out of memory while it was loaded");
  if (message === "interrupted") return rejection("timeout", "the code took too long to load");
  const place = innermost(String(stack));
  // A syntax error stops the file before any of it runs, so its stack has no caller.
  const kind = name === "SyntaxError" && /^\s*at \S+:\d+:\d+\s*$/.test(String(stack)) ? "syntax" : "exception";
  const words = kind === "syntax" ? String(message) : `${String(name)}: ${String(message)}`;
  return rejection(kind, words.slice(0, 2000), place === null ? null : prepared.locationOf(place));
}

const rejection = (kind: Rejection["kind"], message: string, place: Location | null = null): Rejection => ({
  kind,
  message,
  line: place?.line ?? null,
  column: place?.column ?? null,
});
const rejected = (kind: Rejection["kind"], message: string, place: Location | null = null): LoadReply => ({
  ok: false,
  error: rejection(kind, message, place),
});

function nothing(source: string): LoadReply {
  const unexported =
    /^[ \t]*(?:async[ \t]+)?(?:function\*?|const|let|var)[ \t]+(?:reward\w*|\w*_reward|\w+Reward)\b/m.exec(source);
  if (unexported !== null) {
    return rejected(
      "signature",
      "The reward function is not exported: write `export` before it.",
      placeIn(source, unexported.index),
    );
  }
  const first = /^[ \t]*export\b/m.exec(source);
  const message = `Nothing named \`reward\`, \`*_reward\`, \`*Reward\` or \`default\` is exported. Write ${FORMS}.`;
  return rejected("signature", message, first === null ? null : placeIn(source, first.index));
}

/** The location of the export, or of the default export if the name is not found. */
function definition(source: string, name: string): Location | null {
  const escaped = name.replace(/\$/g, "\\$");
  const patterns = [
    `^[ \\t]*(?:export[ \\t]+)?(?:default[ \\t]+)?(?:async[ \\t]+)?(?:function\\*?|const|let|var)[ \\t]+${escaped}(?![\\w$])`,
    `^[ \\t]*export[ \\t]+default\\b`,
    `\\bexport[ \\t]+(?:async[ \\t]+)?(?:function\\*?|const|let|var)[ \\t]+${escaped}(?![\\w$])`,
    `^[ \\t]*export[ \\t]*\\{[^}]*\\b${escaped}(?![\\w$])`,
  ];
  for (const pattern of patterns) {
    const match = new RegExp(pattern, "m").exec(source);
    if (match !== null) return placeIn(source, match.index);
  }
  return null;
}

function placeIn(source: string, index: number): Location {
  const at = index + (/^[ \t]*/.exec(source.slice(index))?.[0].length ?? 0);
  const before = source.slice(0, at);
  return { line: before.split("\n").length, column: at - before.lastIndexOf("\n") };
}
