/** Text with code between backticks, and code in colours. */
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export const Prose = ({ text }: { text: string }) => (
  <>{text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>
);

const TOKEN =
  /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?=[\s,\]}]|$)|(\$[A-Z][A-Z_]+)/gi;

/** Names, strings and figures of JSON, and variables of a shell. */
function Painted({ text }: { text: string }) {
  const parts: ComponentChildren[] = [];
  let last = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [whole, string, colon = "", word] = match;
    const kind = string === undefined ? (word === undefined ? "var" : "num") : colon === "" ? "str" : "key";
    parts.push(text.slice(last, match.index));
    parts.push(
      <span key={match.index} class={`reference-${kind}`}>
        {kind === "str" && whole.includes("$") ? withVariables(whole) : whole}
      </span>,
    );
    last = match.index + whole.length;
  }
  return (
    <>
      {parts}
      {text.slice(last)}
    </>
  );
}

const withVariables = (text: string) =>
  text.split(/(\$[A-Z][A-Z_]+)/).map((part, i) =>
    i % 2 === 1 ? (
      <span key={i} class="reference-var">
        {part}
      </span>
    ) : (
      part
    ),
  );

type CodeProps = { label: string; text: string; isPlain?: boolean; wraps?: boolean };

/** A block of code. `isPlain`: without colours. `wraps`: long lines are broken instead of scrolled. */
export function Code({ label, text, isPlain = false, wraps = false }: CodeProps) {
  const block = useRef<HTMLPreElement>(null);
  const isNear = useNear(block);
  return (
    // biome-ignore lint/a11y/useSemanticElements: code is no group of inputs
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <pre role="group" ref={block} class={wraps ? "reference-wrap" : ""} tabIndex={0} aria-label={label}>
      {isPlain || !isNear ? text : <Painted text={text} />}
    </pre>
  );
}

/** True once the element was near the window. Colours of hundreds of blocks would make the first drawing slow. */
function useNear(block: RefObject<HTMLElement | null>): boolean {
  const [isNear, setIsNear] = useState(false);
  useEffect(() => {
    const watch = new IntersectionObserver(
      ([entry]) => {
        if (!entry?.isIntersecting) return;
        setIsNear(true);
        watch.disconnect();
      },
      { rootMargin: "400px" },
    );
    if (block.current) watch.observe(block.current);
    return () => watch.disconnect();
  }, [block]);
  return isNear;
}
