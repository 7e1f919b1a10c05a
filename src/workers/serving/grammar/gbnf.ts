/** Reads the part of GBNF that this program writes: one rule on each line, without comments. */

export type Node =
  | { kind: "text"; text: string }
  | { kind: "set"; ranges: [number, number][]; negated: boolean }
  | { kind: "rule"; name: string }
  | { kind: "seq"; parts: Node[] }
  | { kind: "alt"; parts: Node[] }
  | { kind: "repeat"; part: Node; min: number; max: number };

/** Throws for any other grammar. */
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
