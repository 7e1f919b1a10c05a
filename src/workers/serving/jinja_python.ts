/**
 * Chat templates expect more of Python than the interpreter has: numbers as keys, methods of texts and lists, and values
 * that are missing. The classes of the interpreter's values are not exported, so values are made by evaluating
 * small expressions.
 */
import { Environment, Interpreter } from "@huggingface/jinja";

export type Value = ReturnType<Interpreter["evaluate"]>;
type Node = Parameters<Interpreter["evaluate"]>[0];
type Part = { type: string; [field: string]: unknown };

const node = (part: Part) => part as unknown as Exclude<Node, undefined>;
const partOf = (statement: Node) => statement as unknown as Part;

/** Stands for an expression that has been evaluated. */
const EVALUATED = "Evaluated";
const done = (value: Value) => node({ type: EVALUATED, value });

const isMissing = (value: Value) => value.type === "UndefinedValue";
const textOf = (value: Value): string | undefined =>
  value.type === "StringValue" && typeof value.value === "string" ? value.value : undefined;

/** Filters of a missing value that give the same as those of an empty text or an empty list. */
const OF_NOTHING: Record<string, unknown> = {
  ...Object.fromEntries(["trim", "lower", "upper", "string", "replace", "indent", "title"].map((name) => [name, ""])),
  ...Object.fromEntries(
    ["length", "join", "list", "items", "sort", "map", "selectattr", "rejectattr"].map((name) => [name, []]),
  ),
};

/** Removes these characters, or white space, from the ends of a text. */
function stripped(text: string, chars: unknown, [start, end]: readonly [boolean, boolean]): string {
  const isDropped = (char: string | undefined) =>
    char !== undefined && (typeof chars === "string" ? chars.includes(char) : /\s/.test(char));
  let from = 0;
  let to = text.length;
  while (start && from < to && isDropped(text[from])) from++;
  while (end && to > from && isDropped(text[to - 1])) to--;
  return text.slice(from, to);
}

/** Puts values in place of {}, {0} and {name}. */
function formatted(text: string, args: readonly unknown[]): string {
  const last = args.at(-1);
  const named: ReadonlyMap<string, unknown> = last instanceof Map ? last : new Map();
  let next = 0;
  return text.replace(/\{\{|\}\}|\{(\w*)\}/g, (whole, key: string | undefined) => {
    if (key === undefined) return whole[0] as string;
    const value = key === "" ? args[next++] : /^\d+$/.test(key) ? args[Number(key)] : named.get(key);
    return String(value ?? "");
  });
}

const TEXT_METHODS: Record<string, (text: string, args: readonly unknown[]) => string> = {
  strip: (text, [chars]) => stripped(text, chars, [true, true]),
  lstrip: (text, [chars]) => stripped(text, chars, [true, false]),
  rstrip: (text, [chars]) => stripped(text, chars, [false, true]),
  removeprefix: (text, [prefix]) => (text.startsWith(String(prefix)) ? text.slice(String(prefix).length) : text),
  removesuffix: (text, [suffix]) => (text.endsWith(String(suffix)) ? text.slice(0, -String(suffix).length) : text),
  format: formatted,
};

export class PythonInterpreter extends Interpreter {
  override evaluate(statement: Node, environment: Environment): Value {
    if (!statement) return super.evaluate(statement, environment);
    const part = partOf(statement);
    switch (part.type) {
      case EVALUATED:
        return part["value"] as Value;
      case "ObjectLiteral":
        return this.#object(part, environment);
      case "ArrayLiteral":
        return this.#list(super.evaluate(statement, environment).value as Value[]);
      case "MemberExpression":
        return this.#member(part, environment);
      case "BinaryExpression":
        return this.#binary(part, environment);
      case "FilterExpression":
        return this.#filter(part, environment);
      case "TestExpression":
        return this.#test(part, environment);
      case "CallExpression":
        return this.#withNumbers(super.evaluate(statement, environment));
      default:
        return super.evaluate(statement, environment);
    }
  }

  #made(part: Part): Value {
    return super.evaluate(node(part), this.global);
  }

  #text = (value: string) => this.#made({ type: "StringLiteral", value });

  /** A list whose tuples are lists too: a loop takes only lists apart. */
  #list(values: readonly Value[]): Value {
    const isTuple = (value: Value) => value.type === "TupleValue";
    const items = values.map((value) => (isTuple(value) ? this.#list(value.value as Value[]) : value));
    return this.#made({ type: "ArrayLiteral", value: items.map(done) });
  }

  /** The interpreter's own functions take plain values; these take and return the interpreter's. */
  #function(body: (args: readonly Value[]) => Value): Value {
    const holder = new Environment().set("f", () => null);
    holder.value = body;
    return holder;
  }

  #object(part: Part, environment: Environment): Value {
    const object = this.#made({ type: "ObjectLiteral", value: new Map() });
    const entries = object.value as Map<unknown, Value>;
    for (const [key, value] of part["value"] as Map<Node, Node>)
      entries.set(this.evaluate(key, environment).value, this.evaluate(value, environment));
    return object;
  }

  #member(part: Part, environment: Environment): Value {
    const object = this.evaluate(part["object"] as Node, environment);
    const rest = node({ ...part, object: done(object) });
    const property = partOf(part["property"] as Node);
    if (!part["computed"]) return this.#method(object, String(property["value"])) ?? super.evaluate(rest, environment);
    if (property.type === "SliceExpression") return super.evaluate(rest, environment);
    const key = this.evaluate(part["property"] as Node, environment);
    if (object.type === "ObjectValue" && typeof key.value === "number")
      return (object.value as Map<unknown, Value>).get(key.value) ?? this.#missing();
    return super.evaluate(node({ ...part, object: done(object), property: done(key) }), environment);
  }

  #method(object: Value, name: string): Value | undefined {
    const text = textOf(object);
    const method = Object.hasOwn(TEXT_METHODS, name) ? TEXT_METHODS[name] : undefined;
    if (text !== undefined && method)
      return this.#function((args) =>
        this.#text(
          method(
            text,
            args.map(({ value }) => value as unknown),
          ),
        ),
      );
    if (object.type !== "ArrayValue") return undefined;
    const items = object.value as Value[];
    const missing = () => this.#missing();
    if (name === "append")
      return this.#function(([item]) => {
        if (item) items.push(item);
        return missing();
      });
    if (name !== "pop") return undefined;
    return this.#function(([at]) => items.splice(at ? Number(at.value) : -1, 1)[0] ?? missing());
  }

  #missing = () => super.evaluate(undefined, this.global);

  /** A missing value joins a text as nothing. */
  #binary(part: Part, environment: Environment): Value {
    const operator = partOf(part["operator"] as Node)["value"];
    if (operator === "and" || operator === "or") return super.evaluate(node(part), environment);
    let left = this.evaluate(part["left"] as Node, environment);
    let right = this.evaluate(part["right"] as Node, environment);
    if ((operator === "+" && (textOf(left) ?? textOf(right)) !== undefined) || operator === "~") {
      if (isMissing(left)) left = this.#text("");
      if (isMissing(right)) right = this.#text("");
    }
    return super.evaluate(node({ ...part, left: done(left), right: done(right) }), environment);
  }

  #filter(part: Part, environment: Environment): Value {
    let operand = this.evaluate(part["operand"] as Node, environment);
    const filter = partOf(part["filter"] as Node);
    const name = String((filter.type === "CallExpression" ? partOf(filter["callee"] as Node) : filter)["value"]);
    const isNothing = isMissing(operand) || operand.type === "NullValue";
    if (isNothing && Object.hasOwn(OF_NOTHING, name))
      operand = OF_NOTHING[name] === "" ? this.#text("") : this.#list([]);
    if (name === "string" && operand.type === "ObjectValue") return this.#text(String(operand));
    if ((name === "min" || name === "max") && operand.type === "ArrayValue")
      return this.#extreme(operand.value as Value[], name === "min" ? -1 : 1);
    if (name === "dictsort" && hasNumbers(operand)) return this.#sorted(operand);
    return this.#withNumbers(super.evaluate(node({ ...part, operand: done(operand) }), environment));
  }

  #extreme(values: readonly Value[], sign: number): Value {
    const extreme = values.reduce<Value | undefined>((best, value) => {
      if (best === undefined) return value;
      const [a, b] = [value.value as number | string, best.value as number | string];
      return (sign < 0 ? a < b : a > b) ? value : best;
    }, undefined);
    return extreme ?? this.#missing();
  }

  #test(part: Part, environment: Environment): Value {
    const operand = this.evaluate(part["operand"] as Node, environment);
    const name = partOf(part["test"] as Node)["value"];
    if (name === "iterable" && (operand.type === "ObjectValue" || operand.type === "TupleValue"))
      return this.#made({ type: "BinaryExpression", operator: { value: "==" }, ...equal(part["negate"] !== true) });
    return super.evaluate(node({ ...part, operand: done(operand) }), environment);
  }

  #number = (value: number) => this.#made({ type: "IntegerLiteral", value });

  #sorted(object: Value): Value {
    const entries = [...(object.value as Map<unknown, Value>)].sort(([a], [b]) => Number(a) - Number(b));
    return this.#list(entries.map(([key, value]) => this.#list([this.#number(Number(key)), value])));
  }

  /** The interpreter lists all keys as texts. Numbers become numbers again. */
  #withNumbers(value: Value): Value {
    if (value?.type !== "ArrayValue") return value;
    const items = value.value as Value[];
    items.forEach((item, i) => {
      if (isNumber(item)) items[i] = this.#number(item.value as number);
      const pair = item.type === "ArrayValue" ? (item.value as Value[]) : [];
      if (pair.length === 2 && isNumber(pair[0])) pair[0] = this.#number(pair[0]?.value as number);
    });
    return value;
  }
}

const isNumber = (value: Value | undefined) => value?.type === "StringValue" && typeof value.value === "number";

const hasNumbers = (value: Value) =>
  value.type === "ObjectValue" &&
  [...(value.value as Map<unknown, Value>).keys()].some((key) => typeof key === "number");

/** Two operands that are equal, or not. */
const equal = (yes: boolean) => ({
  left: { type: "IntegerLiteral", value: 1 },
  right: { type: "IntegerLiteral", value: yes ? 1 : 0 },
});
