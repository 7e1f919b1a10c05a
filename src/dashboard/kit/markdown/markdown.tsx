/** A Markdown text as elements. Text stays text: no HTML, no picture from elsewhere, no address that runs code. */
import type { ComponentChildren } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { Copy } from "../copy.tsx";
import { type Block, blocksOf, grownBlocks, type Lines } from "./blocks.ts";
import { type Inline, inlinesOf } from "./inlines.ts";

/** How a part of the text is shown. `upTo`: text from there on is shown in another way when more is known. */
export type Painting = { upTo: number; paint: (from: number, to: number) => ComponentChildren };

/** A text that grows is read from its last blocks on, and only they are drawn again. */
export function Markdown({ text, painting }: { text: string; painting?: Painting | undefined }) {
  const kept = useRef<{ text: string; blocks: Block[] }>({ text: "", blocks: [] });
  const { current: before } = kept;
  if (text !== before.text) {
    const blocks = text.startsWith(before.text) ? grownBlocks(before.blocks, text) : blocksOf(text);
    kept.current = { text, blocks };
  }
  return (
    <div class="markdown">
      {kept.current.blocks.map((block, i) => (
        <BlockView key={i} block={block} text={text} painting={painting} />
      ))}
    </div>
  );
}

type ViewProps = { text: string; painting: Painting | undefined };

/** Drawn again only if its part of the text, or how it is shown, has changed. */
function BlockView({ block, ...rest }: ViewProps & { block: Block }) {
  const painted = rest.painting && Math.min(rest.painting.upTo, block.to);
  return useMemo(() => <Shown block={block} {...rest} />, [block, painted]);
}

const HEADINGS = ["h3", "h4", "h5", "h6", "h6", "h6"] as const; // h2 is the name of the column

function Shown({ block, ...rest }: ViewProps & { block: Block }) {
  if (block.kind === "rule") return <hr />;
  if (block.kind === "code") return <Code language={block.language} lines={block.lines} {...rest} />;
  if (block.kind === "quote") return <blockquote>{blocks(block.blocks, rest)}</blockquote>;
  if (block.kind === "list") return <List start={block.start} items={block.items} {...rest} />;
  if (block.kind === "table") return <Table table={block} {...rest} />;
  if (block.kind === "paragraph") return <p>{line(block.lines, rest)}</p>;
  const Heading = HEADINGS[block.level - 1] ?? "h6";
  return <Heading>{line(block.lines, rest)}</Heading>;
}

const blocks = (all: readonly Block[], rest: ViewProps) =>
  all.map((block, i) => <Shown key={i} block={block} {...rest} />);

type ListProps = ViewProps & { start: number | undefined; items: readonly (readonly Block[])[] };

function List({ start, items, ...rest }: ListProps) {
  const shown = items.map((item, i) => <li key={i}>{blocks(item, rest)}</li>);
  return start === undefined ? <ul>{shown}</ul> : <ol start={start}>{shown}</ol>;
}

function Table({ table: { sides, rows }, ...rest }: ViewProps & { table: Extract<Block, { kind: "table" }> }) {
  const [head = [], ...body] = rows;
  const cells = (row: Lines, Cell: "th" | "td") =>
    row.map((cell, i) => (
      <Cell key={i} class={sides[i]} scope={Cell === "th" ? "col" : undefined}>
        {line([cell], rest)}
      </Cell>
    ));
  return (
    // biome-ignore lint/a11y/useSemanticElements: a table is no group of inputs
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by keyboard
    <div class="scroll" role="group" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>{cells(head, "th")}</tr>
        </thead>
        <tbody>
          {body.map((row, i) => (
            <tr key={i}>{cells(row, "td")}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type CodeProps = ViewProps & { language: string; lines: Lines };

function Code({ language, lines, text, painting }: CodeProps) {
  const code = lines.map((each) => each.text).join("\n");
  const show = painting?.paint ?? ((from: number, to: number) => text.slice(from, to));
  return (
    <div class="markdown-code">
      <header>
        <small>{language || "text"}</small>
        <Copy text={code} label="Copy the code" />
      </header>
      {/* biome-ignore lint/a11y/useSemanticElements: code is no group of inputs */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by keyboard */}
      <pre role="group" tabIndex={0} aria-label={`Code: ${language || "text"}`}>
        {painting ? lines.flatMap(({ text: part, from }) => [show(from, from + part.length), "\n"]) : code}
      </pre>
    </div>
  );
}

const line = (lines: Lines, rest: ViewProps): ComponentChildren => parts(inlinesOf(lines), rest);

const parts = (inlines: readonly Inline[], rest: ViewProps): ComponentChildren[] =>
  inlines.map((inline, i) => <Part key={i} of={inline} {...rest} />);

function Part({ of, ...rest }: ViewProps & { of: Inline }) {
  const { text, painting } = rest;
  if (of.kind === "newline") return "\n";
  if (of.kind === "text") return <>{painting ? painting.paint(of.from, of.to) : text.slice(of.from, of.to)}</>;
  if (of.kind === "link")
    return (
      <a class="ref" href={of.href} title={of.href} target="_blank" rel="noreferrer noopener nofollow">
        {parts(of.parts, rest)}
      </a>
    );
  const Mark = of.kind;
  return <Mark>{parts(of.parts, rest)}</Mark>;
}
