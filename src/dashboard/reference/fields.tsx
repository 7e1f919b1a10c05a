/** The fields of a schema, with their kinds and limits. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../data/format.ts";
import { core, follow, isNull, kindOf, optionsOf, type Schema } from "./contract.ts";
import { Prose } from "./text.tsx";

const DEEPEST = 5;
/** A nested list is open if it is not deep and not long. */
const OPEN_DEPTH = 2;
const OPEN_FIELDS = 12;

type Properties = NonNullable<Schema["properties"]>;
/** `above`: the lists around this one. A schema inside itself is named and not unrolled. */
type Context = { marks: boolean; above: readonly Properties[] };

/** `isOpen`: draw the fields now. `marks`: say which fields are required; an answer simply has them. */
export function Shape({ schema, marks, isOpen }: { schema: Schema; marks: boolean; isOpen: boolean }) {
  const { description, properties, required } = follow(schema);
  return (
    <>
      {description !== undefined && (
        <p class="reference-note">
          <Prose text={description} />
        </p>
      )}
      {properties ? (
        <Folded count={Object.keys(properties).length} isOpen={isOpen} isBare={isOpen}>
          {() => <List properties={properties} required={required} context={{ marks, above: [] }} />}
        </Folded>
      ) : (
        <p class="reference-note">{kindOf(schema)}</p>
      )}
    </>
  );
}

type FoldedProps = { count: number; isOpen: boolean; isBare?: boolean; children: () => ComponentChildren };

/** A closed list is drawn when it is opened first: the document has thousands of fields. */
function Folded({ count, isOpen: isOpenFirst, isBare = false, children }: FoldedProps) {
  const [isOpen, setIsOpen] = useState(isOpenFirst);
  if (isBare) return <>{children()}</>;
  return (
    <details open={isOpen} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>{plural(count, "field")}</summary>
      {isOpen && children()}
    </details>
  );
}

type ListProps = { properties: Properties; required: readonly string[] | undefined; context: Context };

const List = ({ properties, required = [], context }: ListProps) => (
  <ul class="reference-fields">
    {Object.entries(properties).map(([name, schema]) => (
      <Field
        key={name}
        name={name}
        schema={schema}
        required={required.includes(name)}
        context={{ ...context, above: [...context.above, properties] }}
      />
    ))}
  </ul>
);

type FieldProps = { name: string; schema: Schema; required?: boolean | undefined; context?: Context };

export function Field({ name, schema, required = false, context = { marks: true, above: [] } }: FieldProps) {
  const limits = limitsOf(schema);
  const about = schema.description ?? follow(schema).description;
  return (
    <li>
      <div class="reference-name">
        <code>{name}</code>
        <span>{kindOf(schema)}</span>
        {required && context.marks && <b>required</b>}
      </div>
      {about !== undefined && (
        <div class="reference-note">
          <Prose text={about} />
        </div>
      )}
      {limits.length > 0 && <div class="reference-note">{limits}</div>}
      <Nested schema={schema} context={context} />
    </li>
  );
}

function Nested({ schema, context }: { schema: Schema; context: Context }) {
  const { properties, required } = core(schema);
  if (!properties || context.above.length > DEEPEST || context.above.includes(properties)) return null;
  const count = Object.keys(properties).length;
  return (
    <Folded count={count} isOpen={context.above.length < OPEN_DEPTH && count < OPEN_FIELDS}>
      {() => <List properties={properties} required={required} context={context} />}
    </Folded>
  );
}

const real = (limit: number | undefined) =>
  limit === undefined || Math.abs(limit) >= Number.MAX_SAFE_INTEGER ? undefined : limit;

function range(least: number | undefined, most: number | undefined, unit = ""): string | undefined {
  if (least === 1 && most === undefined && unit !== "") return "not empty";
  if (least !== undefined && most !== undefined) return `${least} to ${most}${unit}`;
  if (least !== undefined) return `at least ${least}${unit}`;
  return most === undefined ? undefined : `at most ${most}${unit}`;
}

/** "1 to 100 characters · default "x"". */
function limitsOf(schema: Schema): ComponentChildren[] {
  const outer = follow(schema);
  const at = (optionsOf(outer) ?? []).map(follow).find((option) => !isNull(option)) ?? outer;
  const choice = at.enum ?? (at.type === "array" ? follow(at.items).enum : undefined);
  const limits: ComponentChildren[] = [
    choice && <Choice key="choice" values={choice} />,
    range(at.minLength, at.maxLength, " characters"),
    range(at.minItems, at.maxItems, " items"),
    range(real(at.minimum), real(at.maximum)),
    at.exclusiveMinimum === undefined ? undefined : `above ${at.exclusiveMinimum}`,
    at.pattern !== undefined && at.format === undefined && <Prose key="pattern" text={`matches \`${at.pattern}\``} />,
    isPlainDefault(outer.default) && <Prose key="default" text={`default \`${JSON.stringify(outer.default)}\``} />,
  ];
  return limits.filter(Boolean).flatMap((part, i) => (i === 0 ? [part] : [" · ", part]));
}

const isPlainDefault = (value: unknown) => value !== undefined && !["null", "{}", "[]"].includes(JSON.stringify(value));

const Choice = ({ values }: { values: readonly unknown[] }) => (
  <>one of {values.map((value, i) => [i === 0 ? "" : " ", <code key={String(value)}>{String(value)}</code>])}</>
);
