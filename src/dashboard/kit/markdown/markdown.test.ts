import { expect, test } from "bun:test";
import { randomFor, sweep } from "../../../../test/sweep.ts";
import { type Block, blocksOf, grownBlocks } from "./blocks.ts";
import { type Inline, inlinesOf, safeAddress } from "./inlines.ts";

/** A short form of the blocks: `h1(Title) ul[p(one)][p(two)]`. */
function shape(text: string): string {
  const inline = (of: Inline): string => {
    if (of.kind === "newline") return "⏎";
    if (of.kind === "text") return text.slice(of.from, of.to);
    const inside = of.parts.map(inline).join("");
    return of.kind === "link" ? `<${inside}|${of.href}>` : `{${of.kind} ${inside}}`;
  };
  const line = (lines: Parameters<typeof inlinesOf>[0]) => inlinesOf(lines).map(inline).join("");
  const one = (block: Block): string => {
    if (block.kind === "rule") return "hr";
    if (block.kind === "paragraph") return `p(${line(block.lines)})`;
    if (block.kind === "heading") return `h${block.level}(${line(block.lines)})`;
    if (block.kind === "code") return `code:${block.language}(${block.lines.map((each) => each.text).join("⏎")})`;
    if (block.kind === "quote") return `quote[${all(block.blocks)}]`;
    if (block.kind === "list")
      return `${block.start === undefined ? "ul" : `ol${block.start}`}${block.items.map((item) => `[${all(item)}]`).join("")}`;
    return `table${block.sides.map((side) => side[0]).join("")}${block.rows.map((row) => `[${row.map((cell) => line([cell])).join("|")}]`).join("")}`;
  };
  const all = (blocks: readonly Block[]) => blocks.map(one).join(" ");
  return all(blocksOf(text));
}

test("paragraphs, headings, rules, quotes and code", () => {
  expect(shape("One\ntwo\n\n# Title #\n## C#\n---\nthree")).toBe("p(One⏎two) h1(Title) h2(C#) hr p(three)");
  expect(shape("> a\n> > b\n\n#no")).toBe("quote[p(a) quote[p(b)]] p(#no)");
  expect(shape("```ts x\nlet a = `1`;\n\n  # no\n```\nafter")).toBe("code:ts(let a = `1`;⏎⏎  # no) p(after)");
  expect(shape("~~~\n```\n~~~~")).toBe("code:(```)");
  expect(shape("```py\nstill written")).toBe("code:py(still written)");
});

test("lists, nested, numbered, with code in them", () => {
  expect(shape("- a\n- b\n  - c\n\n    d\n- e")).toBe("ul[p(a)][p(b) ul[p(c) p(d)]][p(e)]");
  expect(shape("1. a\n  - b\n2) c")).toBe("ol1[p(a) ul[p(b)]] ol2[p(c)]");
  expect(shape("3. a\n\n   ```sh\n   ls\n     -l\n   ```\n4. b")).toBe("ol3[p(a) code:sh(ls⏎  -l)][p(b)]");
  expect(shape("text\n- a\nlazy\n\nnew")).toBe("p(text) ul[p(a⏎lazy)] p(new)");
  expect(shape("It was\n1986. A year\n- \n-5")).toBe("p(It was⏎1986. A year⏎- ⏎-5)");
});

test("tables, with sides, and bars that are text", () => {
  expect(shape("Sums:\n| a | b |\n|:--|--:|\n| 1 | \\| |\n| 2\nend")).toBe("p(Sums:) tablelr[a|b][1||][2|] p(end)");
  expect(shape("a | b\n:-: | -\n")).toBe("tablecl[a|b]");
  expect(shape("a | b\n---")).toBe("p(a | b) hr");
});

test("emphasis, code, escapes and links", () => {
  expect(shape("**a *b*** _c_ ~~d~~ snake_case_name 2 * 3 * 4")).toBe(
    "p({strong a {em b}} {em c} {del d} snake_case_name 2 * 3 * 4)",
  );
  expect(shape("***a*** **open `*` \\*no\\*")).toBe("p({strong {em a}} **open {code *} *no*)");
  expect(shape("`` a`b `` `open")).toBe("p({code a`b} `open)");
  expect(shape("[a *b*](https://x.y/(z) 'title') [c] ![d](https://x.y/d.png)")).toBe(
    "p(<a {em b}|https://x.y/(z)> [c] <d|https://x.y/d.png>)",
  );
  expect(shape("See https://x.y/a_b_(c). <https://x.y> and xhttps://no")).toBe(
    "p(See <https://x.y/a_b_(c)|https://x.y/a_b_(c)>. <https://x.y|https://x.y/> and xhttps://no)",
  );
  expect(shape("[a [b](https://x.y) c](https://z.z)")).toContain("<b|https://x.y/> c](");
});

test("HTML is text, and an address that runs code is no link", () => {
  expect(shape("<img src=x onerror=hit(1)> <b>x</b>")).toBe("p(<img src=x onerror=hit(1)> <b>x</b>)");
  const code = `java${"script"}:hit(1)`;
  for (const address of [
    code,
    ` ${code}`,
    code.toUpperCase(),
    "data:text/html,x",
    "//x.y",
    "/v1",
    "java\tscript:hit(1)",
  ])
    expect([address, safeAddress(address)?.startsWith("http") ?? false]).toEqual([address, false]);
  expect(shape(`[go](${code}) ![p](data:image/png;base64,x) <${code}>`)).toBe(
    `p([go](${code}) ![p](data:image/png;base64,x) <${code}>)`,
  );
});

const PIECES = [
  "\n",
  "\n\n",
  " ",
  "  ",
  "- ",
  "1. ",
  "2",
  ". ",
  "# ",
  "> ",
  "```",
  "`",
  "|",
  "|-|\n",
  "a",
  "b c",
  "*",
  "**",
];
const MORE = ["_", "~~", "[", "](", ")", "https://x.y", "\\", "<", "---", "\t", "+", "0) "];

test("a text that grows is read as the whole, and no character is lost or shown twice", () => {
  const random = randomFor("markdown");
  for (let round = 0; round < sweep({ quick: 300, full: 5_000 }); round++) {
    let text = "";
    let blocks: Block[] = [];
    for (let i = 0; i < 40; i++) {
      text += [...PIECES, ...MORE][Math.floor(random() * (PIECES.length + MORE.length))];
      blocks = grownBlocks(blocks, text);
      expect(blocks).toEqual(blocksOf(text));
    }
    const seen: number[] = [];
    const visit = (of: Inline) => {
      if (of.kind === "text") for (let at = of.from; at < of.to; at++) seen.push(at);
      if ("parts" in of) of.parts.forEach(visit);
    };
    const walk = (block: Block) => {
      if ("lines" in block && block.kind !== "code") inlinesOf(block.lines).forEach(visit);
      if (block.kind === "table") for (const cell of block.rows.flat()) inlinesOf([cell]).forEach(visit);
      if (block.kind === "quote") block.blocks.forEach(walk);
      if (block.kind === "list") block.items.flat().forEach(walk);
    };
    blocks.forEach(walk);
    expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
    if (text.includes("```") || text.includes("](")) continue; // code and addresses are shown elsewhere
    const letters = [...text].flatMap((char, at) => (/[abc]/.test(char) ? [at] : []));
    expect(letters.filter((at) => !seen.includes(at))).toEqual([]);
  }
});

test("hostile texts take time in proportion to their length", () => {
  const n = 20_000;
  const hostile = [
    ...[
      "[a](",
      "[",
      "*a _b ",
      "![",
      "**",
      "a**b",
      "<",
      "`",
      "`a``b",
      "|",
      "- ",
      "> ",
      "https://",
      "\\",
      "~~a",
      "](",
      "[a](",
    ],
  ].map((part) => part.repeat(n / part.length));
  hostile.push(
    "a\n".repeat(n / 2),
    `|a${"|b".repeat(n / 4)}\n${"|-".repeat(n / 4)}|`,
    "- a\n".repeat(n / 4),
    `a${" ".repeat(n)}b`,
  );
  hostile.push(Array.from({ length: 190 }, (_, i) => `${"`".repeat(i + 1)}a`).join(""), `${"  ".repeat(n / 4)}- a`);
  hostile.push(Array.from({ length: 100 }, (_, i) => `${" ".repeat(i * 2)}- a\n`).join(""), "a | b\n".repeat(n / 6));
  for (const text of hostile) {
    const begun = process.cpuUsage();
    shape(text);
    const { user } = process.cpuUsage(begun);
    expect([text.slice(0, 12), user / 1_000 < 400]).toEqual([text.slice(0, 12), true]);
  }
});
