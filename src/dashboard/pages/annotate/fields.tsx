import type { LabelField } from "../../../resources/quality/annotation_queues/label_schema.ts";
import type { AnnotationItem, AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { TextField } from "../../kit/field.tsx";
import { type Action, type Draft, toggled } from "./draft.ts";
import { Spans } from "./spans.tsx";

type Act = (action: Action) => unknown;
type Props = { queue: AnnotationQueue; item: AnnotationItem; draft: Draft; act: Act; correct: (text: string) => void };

export const Fields = ({ queue, item, draft, act, correct }: Props) => (
  <div class="annotate-fields">
    {queue.labels.map((field, i) => (
      <fieldset key={field.name} class={`annotate-field ${i === draft.active ? "active" : ""}`}>
        <legend>
          {field.name} {!field.required && <small>may be left empty</small>}
        </legend>
        {field.description && <small class="muted">{field.description}</small>}
        <Value field={field} item={item} draft={draft} act={act} isActive={i === draft.active} />
      </fieldset>
    ))}
    {queue.mode === "single" && (
      <TextField
        label="Correction"
        rows={3}
        value={draft.correction}
        onInput={correct}
        hint="The answer as it should be. Ctrl Enter saves."
      />
    )}
  </div>
);

type ValueProps = { field: LabelField; item: AnnotationItem; draft: Draft; act: Act; isActive: boolean };

function Value({ field, item, draft, act, isActive }: ValueProps) {
  const { name } = field;
  const value = draft.labels[name];
  const give = (next: Extract<Action, { type: "label" }>["value"], goesOn: boolean) =>
    void act({ type: "label", name, value: next, next: goesOn });
  if (field.type === "text")
    return (
      <TextField
        label={`Text of ${name}`}
        value={typeof value === "string" ? value : ""}
        onInput={(text) => give(text, false)}
      />
    );
  if (field.type === "span")
    return <Spans field={field} item={item} value={value} give={(spans) => give(spans, false)} />;
  if (field.type === "scale") {
    const steps = Array.from({ length: Math.min(field.max - field.min + 1, 101) }, (_, i) => field.min + i);
    return (
      <Options
        options={steps.map((step) => [String(step), step === value, () => give(step, true)])}
        keys={() => undefined}
      />
    );
  }
  return (
    <Options
      options={field.options.map((option) =>
        field.multiple
          ? [
              option,
              Array.isArray(value) && value.some((each) => each === option),
              () => give(toggled(value, option), false),
            ]
          : [option, value === option, () => give(option, true)],
      )}
      keys={(i) => (isActive && i < 9 ? String(i + 1) : undefined)}
    />
  );
}

type OptionsProps = {
  options: readonly (readonly [shown: string, isChosen: boolean, choose: () => void])[];
  keys: (index: number) => string | undefined;
};

const Options = ({ options, keys }: OptionsProps) => (
  <div class="row">
    {options.map(([shown, isChosen, choose], i) => (
      <button key={shown} type="button" class="btn" aria-pressed={isChosen} onClick={choose}>
        {shown}
        {keys(i) !== undefined && <kbd>{keys(i)}</kbd>}
      </button>
    ))}
  </div>
);
