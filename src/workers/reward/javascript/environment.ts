/**
 * The tools of an environment, read from the text of its class: the engine keeps neither types nor comments. A type that
 * is not understood allows everything.
 */
import type { EnvironmentTool } from "../../../lib/rewards/contract.ts";
import { type Calling, closing, parameterOf, topLevel } from "./parameters.ts";

export type Tool = { described: EnvironmentTool; parameters: Calling["parameters"] };

const RESERVED = ["reset", "getReward", "get_reward"];
const MOST_TEXT = 4_000;

/** By name. A method whose parameters cannot be read takes one object. */
export function toolsOf(source: string, name: string, methods: readonly string[]): Record<string, Tool> {
  const from = Math.max(0, source.search(new RegExp(`\\bclass[ \\t]+${escaped(name)}(?![\\w$])`)));
  const tools = methods.filter((method) => !RESERVED.includes(method) && /^[A-Za-z_]\w{0,63}$/.test(method));
  return Object.fromEntries(tools.map((method) => [method, toolOf(source, from, method)]));
}

/** The line of the class, counted from 1. */
export const lineOf = (source: string, name: string): number =>
  source.slice(0, Math.max(0, source.search(new RegExp(`\\bclass[ \\t]+${escaped(name)}(?![\\w$])`)))).split("\n")
    .length;

const escaped = (name: string) => name.replace(/\$/g, "\\$");

function toolOf(source: string, from: number, name: string): Tool {
  const pattern = new RegExp(`^[ \\t]*(?:(?:public|override|async)[ \\t]+)*${escaped(name)}[ \\t]*\\(`, "gm");
  pattern.lastIndex = from;
  const match = pattern.exec(source) ?? new RegExp(pattern.source, "m").exec(source);
  const object = { type: "object", additionalProperties: true };
  const unread: Tool = { described: { name, description: "", parameters: object }, parameters: [{ kind: "object" }] };
  if (!match) return unread;
  const open = match.index + match[0].length - 1;
  const end = closing(source, open);
  if (end < 0) return unread;
  const { text, parameters: documented } = commentBefore(source.slice(0, match.index));
  const parts = topLevel(source.slice(open + 1, end)).filter((part) => part !== "");
  const fields = parts.length === 1 && parts[0]?.startsWith("{") ? fieldsOf(parts[0]) : parts;
  const properties: Record<string, object> = {};
  const required: string[] = [];
  for (const field of fields) {
    const read = /^([\p{ID_Start}$_][\p{ID_Continue}$]*)(\?)?\s*(?::\s*([^=]*))?(=)?/u.exec(field);
    if (!read) continue;
    const [, key = "", isOptional, type, hasDefault] = read;
    const description = documented[key];
    properties[key] = { ...schemaOf(type?.trim() ?? ""), ...(description ? { description } : {}) };
    if (!isOptional && !hasDefault) required.push(key);
  }
  const parameters = { type: "object", properties, required };
  return {
    described: { name, description: text.slice(0, MOST_TEXT), parameters },
    parameters: fields === parts ? parts.map(withoutType).map(parameterOf) : [{ kind: "object" }],
  };
}

/** A parameter `a?` is not required. */
const withoutType = (part: string) => part.replace(/^([\p{ID_Start}$_][\p{ID_Continue}$]*)\?/u, "$1=");

/** The fields of `{ a, b }: { a: number; b?: string }`. Without a type they are the names alone. */
function fieldsOf(part: string): string[] {
  const end = closing(part, 0);
  const type = part.slice(end + 1).replace(/^\s*:\s*/, "");
  const body = type.startsWith("{") ? type.slice(1, closing(type, 0)) : part.slice(1, end);
  return topLevel(body.replaceAll(";", ",").replaceAll("\n", ",")).filter((field) => field !== "");
}

const PLAIN = ["string", "number", "boolean"];

function schemaOf(type: string): Record<string, unknown> {
  const kinds = type
    .split("|")
    .map((each) => each.trim())
    .filter((each) => each !== "" && each !== "undefined" && each !== "null");
  const [only] = kinds;
  if (kinds.length > 1) {
    const texts = kinds.map((each) => /^(["'])(.*)\1$/.exec(each)?.[2]);
    return texts.every((text) => text !== undefined) ? { type: "string", enum: texts } : {};
  }
  if (only === undefined) return {};
  if (PLAIN.includes(only)) return { type: only };
  const inner = /^(.*)\[\]$/.exec(only)?.[1] ?? /^(?:Readonly)?Array<(.*)>$/.exec(only)?.[1];
  if (inner !== undefined) return { type: "array", items: schemaOf(inner) };
  return /^(Record<|\{)/.test(only) ? { type: "object" } : {};
}

/** The text of the comment that ends right before, and that of each `@param`. */
function commentBefore(text: string): { text: string; parameters: Record<string, string> } {
  const comment = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(text)?.[1] ?? "";
  const [head = "", ...tags] = comment.replace(/^[ \t]*\*[ \t]?/gm, "").split(/^\s*@/m);
  const parameters = tags.flatMap((tag) => {
    const match = /^param\s+(?:\{[^}]*\}\s*)?\[?([\w$]+)\]?\s*-?\s*([\s\S]*)/.exec(tag);
    return match ? [[match[1], oneLine(match[2] ?? "")] as const] : [];
  });
  return { text: oneLine(head), parameters: Object.fromEntries(parameters) };
}

const oneLine = (text: string) => text.replace(/\s+/g, " ").trim();
