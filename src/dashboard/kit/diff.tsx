import { diff } from "../data/diff.ts";

/** The difference of two texts, inline. Without `before` the text is shown as it is. */
export const Diff = ({ before, after }: { before: string | undefined; after: string }) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset is of a form
  // biome-ignore lint/a11y/noNoninteractiveTabindex: who has a keyboard alone scrolls it
  <pre class="text" role="group" aria-label={before === undefined ? "Text" : "Differences"} tabIndex={0}>
    {before === undefined
      ? after
      : diff(before, after).map(({ kind, text }, i) => {
          const key = `${i}${kind}`;
          if (kind === "same") return <span key={key}>{text}</span>;
          return kind === "added" ? <ins key={key}>{text}</ins> : <del key={key}>{text}</del>;
        })}
  </pre>
);
