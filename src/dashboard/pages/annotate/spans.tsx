import { useRef } from "preact/hooks";
import type { LabelField, LabelValue } from "../../../resources/quality/annotation_queues/label_schema.ts";
import type { AnnotationItem } from "../../../resources/quality/annotation_queues/schema.ts";
import { IconButton } from "../../kit/button.tsx";
import { Field } from "../../kit/field.tsx";
import { codePoints, type SpanMark } from "./draft.ts";

type Props = {
  field: Extract<LabelField, { type: "span" }>;
  item: AnnotationItem;
  value: LabelValue | undefined;
  give: (spans: SpanMark[]) => void;
};

/** The keyboard can select text in a read-only text field, and not in a plain text. */
export function Spans({ field, item, value, give }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const text = field.of === "input" ? String(item.input) : (item.outputs[0] ?? "");
  const marks = Array.isArray(value) ? value.filter((each) => typeof each !== "string") : [];
  const mark = (label: string) => {
    const { selectionStart = 0, selectionEnd = 0 } = area.current ?? {};
    if (selectionStart === selectionEnd) return;
    const span = { start: codePoints(text, selectionStart), end: codePoints(text, selectionEnd), label };
    give([...marks, span].sort((a, b) => a.start - b.start));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const option = field.options[Number(event.key) - 1];
    if (option === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    mark(option);
  };
  return (
    <>
      <Field label={`Text for ${field.name}`} hint="Select a part, then press the number of its label.">
        {(ids) => <textarea {...ids} ref={area} readOnly rows={4} value={text} onKeyDown={onKeyDown} />}
      </Field>
      <div class="row">
        {field.options.map((option, i) => (
          <button
            key={option}
            type="button"
            class="btn"
            onMouseDown={(e) => e.preventDefault()}
            onClick={() => mark(option)}
          >
            {option} {i < 9 && <kbd>{i + 1}</kbd>}
          </button>
        ))}
      </div>
      {marks.length > 0 && (
        <ul class="annotate-marks">
          {marks.map((span, i) => (
            <li key={`${span.start} ${span.end} ${span.label}`}>
              <b>{span.label}</b>: “{[...text].slice(span.start, span.end).join("")}”
              <IconButton icon="close" label="Remove mark" onClick={() => give(marks.filter((_, at) => at !== i))} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
