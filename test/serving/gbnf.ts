/** Reads GBNF and writes random sentences, like a model without preferences. */

type Node =
  | { kind: "text"; text: string }
  | { kind: "set"; ranges: [number, number][]; negated: boolean }
  | { kind: "rule"; name: string }
  | { kind: "seq"; parts: Node[] }
  | { kind: "alt"; parts: Node[] }
  | { kind: "repeat"; part: Node; min: number; max: number };

const SAMPLE_CHARS = [..."abz09 _-.,:;/~!é漢😀\u0080"].map((char) => char.codePointAt(0) as number);
const MORE_THAN_MIN = 3;

export function parseGbnf(grammar: string): Map<string, Node> {
  const rules = new Map<string, Node>();
  for (const line of grammar.split("\n").filter((text) => text.trim() !== "")) {
    const [, name, body] = /^([a-zA-Z0-9-]+) ::= (.*)$/s.exec(line) ?? [];
    if (!name || body === undefined) throw new Error(`no rule: ${line}`);
    if (rules.has(name)) throw new Error(`twice: ${name}`);
    rules.set(name, new Parser([...body]).whole());
  }
  return rules;
}

class Parser {
  private at = 0;
  constructor(private readonly text: string[]) {}

  whole(): Node {
    const node = this.alternatives();
    if (this.at < this.text.length) throw new Error(`unexpected ${this.text.slice(this.at).join("")}`);
    return node;
  }
  private space() {
    while (this.text[this.at] === " ") this.at++;
  }
  private alternatives(): Node {
    const parts = [this.sequence()];
    while (this.text[this.at] === "|") {
      this.at++;
      parts.push(this.sequence());
    }
    return { kind: "alt", parts };
  }
  private sequence(): Node {
    const parts: Node[] = [];
    for (this.space(); this.at < this.text.length && !"|)".includes(this.text[this.at]!); this.space())
      parts.push(this.repeated(this.atom()));
    return { kind: "seq", parts };
  }
  private repeated(part: Node): Node {
    const rest = this.text.slice(this.at, this.at + 16).join("");
    const [whole, sign, low, comma, high] = /^(?:([*+?])|\{(\d+)(,?)(\d*)\})/.exec(rest) ?? [];
    if (whole === undefined) return part;
    this.at += whole.length;
    const infinite = Number.POSITIVE_INFINITY;
    if (sign) return { kind: "repeat", part, min: sign === "+" ? 1 : 0, max: sign === "?" ? 1 : infinite };
    return { kind: "repeat", part, min: Number(low), max: high ? Number(high) : comma ? infinite : Number(low) };
  }
  private atom(): Node {
    const char = this.text[this.at++]!;
    if (char === "(") {
      const node = this.alternatives();
      if (this.text[this.at++] !== ")") throw new Error("group does not end");
      return node;
    }
    if (char === '"') {
      let text = "";
      while (this.text[this.at] !== '"') text += String.fromCodePoint(this.char());
      this.at++;
      return { kind: "text", text };
    }
    if (char === "[") return this.set();
    let name = char;
    while (/[a-zA-Z0-9-]/.test(this.text[this.at] ?? "")) name += this.text[this.at++];
    if (!/^[a-zA-Z0-9-]+$/.test(name)) throw new Error(`unexpected ${name}`);
    return { kind: "rule", name };
  }
  private set(): Node {
    const negated = this.text[this.at] === "^";
    if (negated) this.at++;
    const ranges: [number, number][] = [];
    while (this.text[this.at] !== "]") {
      const from = this.char();
      if (this.text[this.at] === "-" && this.text[this.at + 1] !== "]") {
        this.at++;
        ranges.push([from, this.char()]);
      } else ranges.push([from, from]);
    }
    this.at++;
    return { kind: "set", ranges, negated };
  }
  private char(): number {
    const char = this.text[this.at++];
    if (char === undefined) throw new Error("ends too early");
    if (char !== "\\") return char.codePointAt(0)!;
    const letter = this.text[this.at++]!;
    const width = { x: 2, u: 4, U: 8 }[letter];
    if (width === undefined) return { n: 10, r: 13, t: 9 }[letter] ?? letter.codePointAt(0)!;
    const code = Number.parseInt(this.text.slice(this.at, this.at + width).join(""), 16);
    this.at += width;
    return code;
  }
}

/** Returns a random sentence. Beyond `depth` it takes the shortest way out, so that it ends. */
export function sentence(rules: Map<string, Node>, random: () => number, depth = 12): string {
  const cost = costs(rules);
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)]!;
  const write = (node: Node, left: number): string => {
    if (node.kind === "text") return node.text;
    if (node.kind === "set") return String.fromCodePoint(fromSet(node, random, pick));
    if (node.kind === "rule") return write(ruleOf(rules, node.name), left - 1);
    if (node.kind === "seq") return node.parts.map((part) => write(part, left)).join("");
    if (node.kind === "alt") {
      const least = Math.min(...node.parts.map(cost));
      return write(pick(left > 0 ? node.parts : node.parts.filter((part) => cost(part) === least)), left);
    }
    const more = left > 0 ? Math.min(node.max - node.min, MORE_THAN_MIN) : 0;
    const times = node.min + Math.floor(random() * (more + 1));
    return Array.from({ length: times }, () => write(node.part, left)).join("");
  };
  return write({ kind: "rule", name: "root" }, depth);
}

function ruleOf(rules: Map<string, Node>, name: string): Node {
  const rule = rules.get(name);
  if (!rule) throw new Error(`undefined rule ${name}`);
  return rule;
}

/** Returns the minimum depth of rules that a node needs. */
function costs(rules: Map<string, Node>): (node: Node) => number {
  const known = new Map<string, number>();
  const cost = (node: Node): number => {
    if (node.kind === "rule") {
      ruleOf(rules, node.name);
      return known.get(node.name) ?? Number.POSITIVE_INFINITY;
    }
    if (node.kind === "seq") return Math.max(0, ...node.parts.map(cost));
    if (node.kind === "alt") return Math.min(...node.parts.map(cost));
    return node.kind === "repeat" && node.min > 0 ? cost(node.part) : 0;
  };
  for (let changed = true; changed; ) {
    changed = false;
    for (const [name, node] of rules) {
      const found = cost(node) + 1;
      if (found < (known.get(name) ?? Number.POSITIVE_INFINITY)) {
        known.set(name, found);
        changed = true;
      }
    }
  }
  return cost;
}

function fromSet(
  { ranges, negated }: { ranges: [number, number][]; negated: boolean },
  random: () => number,
  pick: <T>(items: readonly T[]) => T,
): number {
  if (negated) return pick(SAMPLE_CHARS.filter((code) => !ranges.some(([from, to]) => from <= code && code <= to)));
  const [from, to] = pick(ranges);
  return from + Math.floor(random() * (to - from + 1));
}
