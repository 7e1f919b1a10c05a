/** A text area over a coloured copy of its text, with line numbers and marks for errors. */
import { useId, useMemo, useRef } from "preact/hooks";
import { tokensOf } from "./tokens.ts";

export type Mark = { line: number; column: number | null; message: string };
type Props = {
  label: string;
  value: string;
  onInput: (value: string) => void;
  isPython: boolean;
  marks: readonly Mark[];
};

export function CodeEditor({ label, value, onInput, isPython, marks }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const about = useId();
  const tokens = useMemo(() => tokensOf(value, isPython), [value, isPython]);
  const lines = value.split("\n").length;
  const wrong = new Map(marks.map((mark) => [mark.line, mark.message]));
  /** Tab indents; Esc lets Tab leave the editor again. */
  const leave = useRef(false);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") leave.current = true;
    else if (event.key !== "Tab" || event.shiftKey || leave.current) leave.current = false;
    else {
      event.preventDefault();
      document.execCommand("insertText", false, isPython ? "    " : "  ");
    }
  };
  const goTo = ({ line, column }: Mark) => {
    const before = value.split("\n").slice(0, line - 1);
    const at = before.reduce((sum, text) => sum + text.length + 1, 0) + Math.max(0, (column ?? 1) - 1);
    area.current?.focus();
    area.current?.setSelectionRange(at, at);
  };
  return (
    <div class="rewards-editor">
      <div class="rewards-code">
        <ol aria-hidden="true">
          {Array.from({ length: lines }, (_, i) => (
            <li key={i} class={wrong.has(i + 1) ? "wrong" : ""} title={wrong.get(i + 1)} />
          ))}
        </ol>
        <div class="rewards-layers">
          <pre aria-hidden="true">
            {tokens.map(({ kind, text }, i) => (
              <span key={i} class={`t-${kind}`}>
                {text}
              </span>
            ))}
            {"\n"}
          </pre>
          <textarea
            ref={area}
            aria-label={label}
            aria-describedby={about}
            aria-invalid={marks.length > 0}
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            wrap="off"
            value={value}
            onInput={(event) => onInput(event.currentTarget.value)}
            onKeyDown={onKeyDown}
          />
        </div>
      </div>
      <div class="rewards-marks" role="status">
        {marks.map((mark) => (
          <button key={`${mark.line}${mark.message}`} type="button" class="plain bad" onClick={() => goTo(mark)}>
            {`Line ${mark.line}${mark.column === null ? "" : `, column ${mark.column}`}: ${mark.message}`}
          </button>
        ))}
      </div>
      <small id={about} class="muted">
        Tab indents. Press Esc, then Tab, to leave the editor.
      </small>
    </div>
  );
}
