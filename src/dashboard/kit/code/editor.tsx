/** The editors of code and of JSON: a text area over a coloured copy of its text, with line numbers and marks. */
import type { ComponentChildren } from "preact";
import { useId, useMemo, useRef } from "preact/hooks";
import { Field } from "../field.tsx";
import { jsonLineMarks, jsonMark, type Mark } from "./marks.ts";
import { type CodeLanguage, tokensOf } from "./tokens.ts";

type EditorProps = {
  label: string;
  value: string;
  onInput: (value: string) => void;
  language: CodeLanguage;
  marks: readonly Mark[];
};

/** Code of a page's main task. Tab indents. */
export function CodeEditor({ label, value, onInput, language, marks }: EditorProps) {
  const about = useId();
  return (
    <Editor
      ids={{ "aria-label": label, "aria-describedby": about, "aria-invalid": marks.length > 0 }}
      value={value}
      onInput={onInput}
      language={language}
      marks={marks}
      rows={15}
      indents
    >
      <small id={about} class="muted">
        Tab indents. Press Esc, then Tab, to leave the editor.
      </small>
    </Editor>
  );
}

type JsonFieldProps = {
  label: string;
  value: string;
  onInput: (value: string) => void;
  rows: number;
  hint?: ComponentChildren;
  /** A fault that the form or the server reports. Lines that are no JSON have their own marks. */
  error?: string | undefined;
  /** One JSON text on each line. */
  isLines?: boolean;
  placeholder?: string;
};

/** A field for JSON in a form. Tab leaves it, as it leaves other fields. */
export function JsonField({ label, hint, error, value, isLines = false, ...editor }: JsonFieldProps) {
  const marks = useMemo(() => {
    if (isLines) return jsonLineMarks(value);
    const mark = jsonMark(value);
    return mark ? [mark] : [];
  }, [value, isLines]);
  return (
    <Field label={label} hint={hint} error={marks.length === 0 ? error : undefined}>
      {(ids) => (
        <Editor
          {...editor}
          ids={{ ...ids, "aria-invalid": ids["aria-invalid"] || marks.length > 0 }}
          value={value}
          language="json"
          marks={marks.slice(0, MOST_MARKS)}
        />
      )}
    </Field>
  );
}

const MOST_MARKS = 5;

/** Code that is read, not changed. */
export const CodeView = ({ label, value, language }: { label: string; value: string; language: CodeLanguage }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: long lines are scrolled by keyboard
  <section class="editor-view" aria-label={label} tabIndex={0}>
    <pre>
      <Coloured value={value} language={language} />
    </pre>
  </section>
);

function Coloured({ value, language }: { value: string; language: CodeLanguage }) {
  const tokens = useMemo(() => tokensOf(value, language), [value, language]);
  return (
    <>
      {tokens.map(({ kind, text }, i) => (
        <span key={i} class={`t-${kind}`}>
          {text}
        </span>
      ))}
    </>
  );
}

type Props = {
  ids: { id?: string; "aria-label"?: string; "aria-describedby": string; "aria-invalid": boolean };
  value: string;
  onInput: (value: string) => void;
  language: CodeLanguage;
  marks: readonly Mark[];
  /** The least height. */
  rows: number;
  /** Tab indents instead of leaving. */
  indents?: boolean;
  placeholder?: string;
  children?: ComponentChildren;
};

function Editor({ ids, value, onInput, language, marks, rows, indents = false, placeholder, children }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = value.split("\n").length;
  const wrong = new Map(marks.map((mark) => [mark.line, mark.message]));
  /** Esc lets Tab leave the editor again. */
  const leave = useRef(false);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") leave.current = true;
    else if (event.key !== "Tab" || event.shiftKey || leave.current) leave.current = false;
    else if (indents) {
      event.preventDefault();
      document.execCommand("insertText", false, language === "python" ? "    " : "  ");
    }
  };
  const goTo = ({ line, column }: Mark) => {
    const before = value.split("\n").slice(0, line - 1);
    const at = before.reduce((sum, text) => sum + text.length + 1, 0) + Math.max(0, (column ?? 1) - 1);
    area.current?.focus();
    area.current?.setSelectionRange(at, at);
  };
  return (
    <div class={indents ? "editor large" : "editor"}>
      <div class="editor-box" style={{ minHeight: `calc(${rows} * 1.5em + 22px)` }}>
        <ol aria-hidden="true">
          {Array.from({ length: lines }, (_, i) => (
            <li key={i} class={wrong.has(i + 1) ? "wrong" : ""} title={wrong.get(i + 1)} />
          ))}
        </ol>
        <div class="editor-layers">
          <pre aria-hidden="true">
            <Coloured value={value} language={language} />
            {"\n"}
          </pre>
          <textarea
            {...ids}
            ref={area}
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            wrap="off"
            value={value}
            placeholder={placeholder}
            onInput={(event) => onInput(event.currentTarget.value)}
            onKeyDown={onKeyDown}
          />
        </div>
      </div>
      <div class="editor-marks" role="status">
        {marks.map((mark) => (
          <button key={`${mark.line}${mark.message}`} type="button" class="plain bad" onClick={() => goTo(mark)}>
            {`Line ${mark.line}${mark.column === null ? "" : `, column ${mark.column}`}: ${mark.message}`}
          </button>
        ))}
      </div>
      {children}
    </div>
  );
}
