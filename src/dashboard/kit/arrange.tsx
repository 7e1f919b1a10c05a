/** A dialog in which the reader chooses parts of a page and their order: columns of a table, charts of a run. */
import { useState } from "preact/hooks";
import { Button, IconButton } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { TextField } from "./field.tsx";

export type Choice = { key: string; label: string };

type ArrangeProps = {
  title: string;
  /** Everything that can be chosen. */
  choices: readonly Choice[];
  /** Keys of what is shown, in order. */
  shown: readonly string[];
  onChange: (shown: string[]) => void;
  /** "Reset" brings these back. */
  initial: readonly string[];
  onClose: () => void;
};

const MOST_FOUND = 60;

export function Arrange({ title, choices, shown, onChange, initial, onClose }: ArrangeProps) {
  const [search, setSearch] = useState("");
  const labelOf = (key: string) => choices.find((each) => each.key === key)?.label ?? key;
  const move = (at: number, by: number) => onChange(moved(shown, at, by));
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const others = choices.filter(
    ({ key, label }) => !shown.includes(key) && words.every((word) => label.toLowerCase().includes(word)),
  );
  return (
    <Dialog title={title} onClose={onClose} wide>
      <div class="arrange">
        <section aria-label="Shown">
          <h3>Shown, in this order</h3>
          {shown.length === 0 && <p class="muted">Nothing is chosen.</p>}
          <ol>
            {shown.map((key, at) => (
              <li key={key}>
                <span>{labelOf(key)}</span>
                {at > 0 && <IconButton icon="up" label={`Move ${labelOf(key)} up`} onClick={() => move(at, -1)} />}
                {at < shown.length - 1 && (
                  <IconButton icon="down" label={`Move ${labelOf(key)} down`} onClick={() => move(at, 1)} />
                )}
                <IconButton
                  icon="close"
                  label={`Remove ${labelOf(key)}`}
                  onClick={() => onChange(shown.filter((each) => each !== key))}
                />
              </li>
            ))}
          </ol>
        </section>
        <section aria-label="More">
          <h3>More</h3>
          <TextField label="Find" type="search" value={search} onInput={setSearch} placeholder="Part of a name" />
          <ul>
            {others.slice(0, MOST_FOUND).map(({ key, label }) => (
              <li key={key}>
                <span>{label}</span>
                <IconButton icon="plus" label={`Add ${label}`} onClick={() => onChange([...shown, key])} />
              </li>
            ))}
          </ul>
          {others.length > MOST_FOUND && (
            <p class="muted">{`${others.length - MOST_FOUND} more: type a part of the name.`}</p>
          )}
          {others.length === 0 && <p class="muted">Nothing else fits.</p>}
        </section>
      </div>
      <footer>
        <Button onClick={() => onChange([...initial])}>Reset</Button>
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </footer>
    </Dialog>
  );
}

/** The list with the item at `at` moved by `by` places. */
export function moved(list: readonly string[], at: number, by: number): string[] {
  const next = [...list];
  const [item] = next.splice(at, 1);
  if (item !== undefined) next.splice(Math.max(0, at + by), 0, item);
  return next;
}
