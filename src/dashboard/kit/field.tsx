import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

type FieldProps = {
  label: string;
  /** Below the label: what it means, an example. */
  hint?: ComponentChildren;
  error?: string | undefined;
  children: (ids: { id: string; "aria-describedby": string; "aria-invalid": boolean }) => ComponentChildren;
};

/** Label, hint and error around any input. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const about = `${id}-about`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": about, "aria-invalid": error !== undefined })}
      <small id={about}>
        {error !== undefined && (
          <span class="bad" role="alert">
            {error}
          </span>
        )}
        {error === undefined && hint}
      </small>
    </div>
  );
}

type TextProps = {
  label: string;
  value: string;
  onInput: (value: string) => void;
  hint?: ComponentChildren;
  error?: string | undefined;
  type?: "text" | "email" | "password" | "number" | "url" | "search" | "datetime-local" | undefined;
  placeholder?: string | undefined;
  /** More than one: a text area. */
  rows?: number | undefined;
  mono?: boolean | undefined;
  /** For password managers; otherwise browsers offer nothing. */
  autocomplete?: "username" | "current-password" | "new-password" | "one-time-code" | undefined;
};

export const TextField = ({
  label,
  hint,
  error,
  value,
  onInput,
  type = "text",
  placeholder,
  rows,
  mono,
  autocomplete,
}: TextProps) => (
  <Field label={label} hint={hint} error={error}>
    {(ids) =>
      rows === undefined ? (
        <input
          {...ids}
          class={mono ? "mono" : ""}
          type={type as "text"}
          value={value}
          placeholder={placeholder}
          autocomplete={autocomplete ?? "off"}
          spellcheck={false}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      ) : (
        <textarea
          {...ids}
          class={mono ? "mono" : ""}
          rows={rows}
          value={value}
          placeholder={placeholder}
          spellcheck={false}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )
    }
  </Field>
);

type SelectProps<V extends string> = {
  label: string;
  value: V;
  options: readonly (readonly [value: V, shown: string])[];
  onChange: (value: V) => void;
  hint?: ComponentChildren;
  error?: string | undefined;
};

export const SelectField = <V extends string>({ label, hint, error, value, options, onChange }: SelectProps<V>) => (
  <Field label={label} hint={hint} error={error}>
    {(ids) => (
      <select {...ids} value={value} onChange={(event) => onChange(event.currentTarget.value as V)}>
        {options.map(([each, shown]) => (
          <option key={each} value={each}>
            {shown}
          </option>
        ))}
      </select>
    )}
  </Field>
);

type CheckProps = { label: string; checked: boolean; onChange: (checked: boolean) => void };

export const CheckField = ({ label, checked, onChange }: CheckProps) => (
  <label class="check">
    <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
    {label}
  </label>
);
