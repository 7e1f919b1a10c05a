/** Calls every operation of the document with right, borderline and wrong values, and judges each answer. */
import type { Schema, Schemas } from "../../scripts/fuzz/request_bodies.ts";
import type { Random } from "../../src/lib/random.ts";
import { type Contract, type Field, misspelt, openDocument, pick, pointerTo, withField } from "./cases.ts";
import { renamed, type World } from "./world.ts";

type Parameter = { name: string; in: string; required?: boolean; schema: Schema };
type Operation = { parameters?: Parameter[]; requestBody?: { content?: Record<string, { schema?: Schema }> } };
export type Document = { paths: Record<string, Record<string, Operation>>; components: { schemas: Schemas } };
type Target = {
  name: string;
  method: string;
  path: string;
  operation: Operation;
  body: Schema | undefined;
  fields: Field[];
};

export type Call = {
  operation: string;
  method: string;
  path: string;
  body: unknown;
  /** The field that is wrong, and how an error may name it. */
  wrong?: { params: readonly string[]; what: string };
};

/** Requests in the form of other programs: fields that are not known here are ignored. */
const FOREIGN =
  /completions$|embeddings$|otlp|^POST \/v1\/traces$|\/(completion|infill|tokenize|detokenize|apply-template|input_tokens|rerank|messages|\w+Contents?|countTokens|feature-extraction|count_tokens|responses|chat|generate|embed|show)$/;
/** Free text and the caller's own names. */
const OPEN = new Set([
  "metadata",
  "env",
  "params",
  "credentials",
  "chat_template_kwargs",
  "logit_bias",
  "hyperparameters",
  "lora",
]);
/** Bun answers 431 by itself where all headers and the path have more than 16 KiB. */
const LONGEST_QUERY = 2_000;
/** An answer that never ends, or one that destroys what the other calls need. */
const LEFT_OUT = new Set(["POST /v1/workspaces/{id}/suspend", "POST /v1/models/scan"]);

export function openWalk(document: Document, world: World) {
  const contract = openDocument(document.components.schemas);
  const targets = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]): Target[] => {
      const name = `${method.toUpperCase()} ${path}`;
      const body = operation.requestBody?.content?.["application/json"]?.schema;
      const fields = body ? contract.fieldsOf(body) : [];
      return LEFT_OUT.has(name) ? [] : [{ name, method: method.toUpperCase(), path, operation, body, fields }];
    }),
  );
  // an operation with many fields has many ways to be wrong
  const weighted = targets.flatMap((target) =>
    Array<Target>(2 + target.fields.length + queriesOf(target).length).fill(target),
  );
  return {
    operations: targets.map(({ name }) => name),
    callFor: (random: Random, number: number): Call =>
      callFor(pick(random, weighted), { contract, world, random, number }),
    validOf: (name: string): Call => {
      const target = targets.find((each) => each.name === name) as Target;
      return { operation: name, method: target.method, path: pathOf(target, world), body: bodyOf(target, world, 0) };
    },
  };
}

const queriesOf = ({ operation }: Target) => (operation.parameters ?? []).filter((each) => each.in === "query");

/** Deleting is tried on things that are not there, so that the other calls keep theirs. */
function pathOf({ method, path, operation }: Target, { ids }: World): string {
  const kind = path.split("/")[2] ?? "";
  let first = true;
  const named = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const isFirst = first;
    first = false;
    if (name === "snapshot" || name === "other") return "@snap-1";
    if (name === "path") return "a.txt";
    if (!isFirst || method === "DELETE") return "none";
    return ids[kind] ?? "none";
  });
  const required = (operation.parameters ?? []).filter((each) => each.in === "query" && each.required);
  const query = required.map((each) => `${each.name}=${each.name === "payment_customer_id" ? ids["customer"] : "1"}`);
  return query.length === 0 ? named : `${named}?${query.join("&")}`;
}

const bodyOf = (target: Target, { bodies }: World, number: number): unknown =>
  target.body ? renamed(target.name, bodies[target.name], number) : undefined;

type Making = { contract: Contract; world: World; random: Random; number: number };

function callFor(target: Target, making: Making): Call {
  const { world, random, number } = making;
  const call = {
    operation: target.name,
    method: target.method,
    path: pathOf(target, world),
    body: bodyOf(target, world, number),
  };
  const queries = queriesOf(target);
  const choice = random() * (1 + target.fields.length + queries.length);
  if (choice < 1) return call;
  if (choice < 1 + queries.length) return withQuery(call, pick(random, queries), making);
  return withChange(call, pick(random, target.fields), making);
}

function withChange(call: Call, field: Field, { contract, random }: Making): Call {
  const { path } = field;
  const pointer = pointerTo(path);
  const name = path.at(-1) ?? "";
  const isOpen = path.some((each) => OPEN.has(each));
  const roll = random();
  const parentIsThere = path.length === 1 || valueAt(call.body, path.slice(0, -1)) !== undefined;
  if (roll < 0.1 && field.required && parentIsThere)
    return { ...call, body: withField(call.body, path, undefined), wrong: { params: [pointer], what: "is missing" } };
  if (roll < 0.2 && name.length >= 5 && !isOpen && !FOREIGN.test(call.operation) && parentIsThere) {
    const typo = [...path.slice(0, -1), misspelt(name)];
    if (typo.at(-1) !== name)
      return {
        ...call,
        body: withField(call.body, typo, valueAt(call.body, path) ?? 1),
        wrong: { params: [pointerTo(typo)], what: "is misspelt" },
      };
  }
  const { value, wrong } = contract.valueFor(field.schema, random);
  const body = withField(call.body, path, value);
  if (!wrong || !parentIsThere) return { ...call, body };
  return { ...call, body, wrong: { params: [pointer], what: `is ${JSON.stringify(value)?.slice(0, 60)}` } };
}

const valueAt = (body: unknown, path: readonly string[]): unknown =>
  path.reduce((at: unknown, name) => (at as Record<string, unknown> | undefined)?.[name], body);

function withQuery(call: Call, { name, schema }: Parameter, { contract, random }: Making): Call {
  const { value } = contract.valueFor(schema, random);
  const text = (typeof value === "string" ? value : JSON.stringify(value)).slice(0, LONGEST_QUERY).toWellFormed();
  if (name === "stream") return call; // a stream has no end
  const [bare = "", query = ""] = call.path.split("?", 2);
  const others = query.split("&").filter((pair) => pair !== "" && !pair.startsWith(`${name}=`));
  const pairs = [...others, `${name}=${encodeURIComponent(text)}`];
  // the text of a number is a number: only what no reading accepts is wrong
  const isWrong =
    !contract.accepts(schema, text) && !contract.accepts(schema, number(text)) && !/^(true|false)$/.test(text);
  const changed = { ...call, path: `${bare}?${pairs.join("&")}` };
  return isWrong ? { ...changed, wrong: { params: [name, `/${name}`], what: `is ${text.slice(0, 60)}` } } : changed;
}

const number = (text: string): unknown => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text);
