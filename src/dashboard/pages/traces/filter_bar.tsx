import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import { type Page, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { FILTERS, type FilterName, TIMES } from "./filters.ts";

const TYPING_MS = 300;

/** A text that moves into the address after a pause in typing. */
function Text({
  name,
  label,
  type = "text",
  placeholder,
}: {
  name: FilterName;
  label: string;
  type?: "text" | "number" | "search";
  placeholder?: string;
}) {
  const inAddress = queryOf(name) ?? "";
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const input = (value: string) => {
    setTyped(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setQuery({ [name]: value.trim() });
      setTyped(undefined);
    }, TYPING_MS);
  };
  return <TextField label={label} type={type} value={typed ?? inAddress} placeholder={placeholder} onInput={input} />;
}

type Options = readonly (readonly [value: string, shown: string])[];

/** A value of the address that is none of the options is shown too, as a link may have brought it. */
function Choice({ name, label, any, options }: { name: FilterName; label: string; any: string; options: Options }) {
  const value = queryOf(name) ?? "";
  const isKnown = value === "" || options.some(([each]) => each === value);
  const all: Options = [["", any], ...options, ...(isKnown ? [] : [[value, value] as const])];
  return (
    <SelectField
      label={label}
      value={value}
      options={all}
      onChange={(chosen: string) => setQuery({ [name]: chosen }, { push: true })}
    />
  );
}

export const clearFilters = () => setQuery(Object.fromEntries(FILTERS.map((name) => [name, undefined])));
export const isFiltered = () => FILTERS.some((name) => queryOf(name) !== undefined);

export function FilterBar() {
  const keys = useResource<Page<ApiKey>>("/v1/api_keys?limit=100");
  const isNarrow = FILTERS.some((name) => /duration|_score|key/.test(name) && queryOf(name) !== undefined);
  return (
    <div class="traces-filters">
      <div class="filters traces-first">
        <Text name="q" label="Search the content" type="search" placeholder="Search the content" />
        <Choice
          name="time"
          label="Time"
          any="Any time"
          options={Object.entries(TIMES).map(([value, [shown]]) => [value, shown])}
        />
        {isFiltered() && (
          <Button kind="quiet" onClick={clearFilters}>
            Clear filters
          </Button>
        )}
      </div>
      <details open={isNarrow}>
        <summary>Duration, score and key</summary>
        <div class="traces-more">
          <Text name="min_duration_ms" label="At least (ms)" type="number" />
          <Text name="max_duration_ms" label="At most (ms)" type="number" />
          <Text name="score" label="Has the score" />
          <Text name="min_score" label="Score from" type="number" />
          <Text name="max_score" label="Score to" type="number" />
          <Choice
            name="key_id"
            label="Key"
            any="Any key"
            options={(keys.data?.data ?? []).map(({ id, name }) => [id, name])}
          />
        </div>
      </details>
    </div>
  );
}
