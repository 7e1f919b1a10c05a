/** Saved views: a name for the filters, the order and the columns of the list. Kept in this browser, by workspace. */
import { useState } from "preact/hooks";
import { keep, readKept } from "../../../data/kept.ts";
import { session } from "../../../data/session.ts";
import { Button } from "../../../kit/button.tsx";
import { FormDialog } from "../../../kit/dialog.tsx";
import { TextField } from "../../../kit/field.tsx";
import { Icon } from "../../../kit/icon.tsx";
import { navigate, place } from "../../../shell/router.ts";

export type SavedView = { name: string; query: string };

const MOST_VIEWS = 50;
const LONGEST = 60;

const isView = (value: unknown): value is SavedView =>
  typeof value === "object" &&
  value !== null &&
  "name" in value &&
  typeof value.name === "string" &&
  "query" in value &&
  typeof value.query === "string";

const viewsOf = (value: unknown): SavedView[] =>
  Array.isArray(value) ? value.filter(isView).slice(0, MOST_VIEWS) : [];

const storeName = () => `runs.views.${session.value.is === "in" ? session.value.session.workspace.id : ""}`;

/** The address without the runs that are picked. */
function queryNow(): string {
  const query = new URLSearchParams(place.value.query);
  query.delete("ids");
  query.sort();
  return query.toString();
}

export function Views() {
  const [isNaming, setNaming] = useState(false);
  const store = storeName();
  const views = readKept(store, viewsOf);
  const now = queryNow();
  const open = (query: string) => navigate(query === "" ? "/runs" : `/runs?${query}`);
  const remove = ({ name }: SavedView) =>
    keep(
      store,
      views.filter((each) => each.name !== name),
    );
  return (
    <nav class="runs-views" aria-label="Saved views">
      <button type="button" aria-current={now === "" ? "true" : undefined} onClick={() => open("")}>
        All runs
      </button>
      {views.map((view) => (
        <span key={view.name}>
          <button type="button" aria-current={view.query === now ? "true" : undefined} onClick={() => open(view.query)}>
            {view.name}
          </button>
          <button type="button" class="forget" aria-label={`Forget the view ${view.name}`} onClick={() => remove(view)}>
            <Icon name="close" />
          </button>
        </span>
      ))}
      {now !== "" && !views.some(({ query }) => query === now) && (
        <Button kind="quiet" icon="plus" onClick={() => setNaming(true)}>
          Save view
        </Button>
      )}
      {isNaming && (
        <Naming
          onSave={(name) => {
            keep(store, [...views.filter((each) => each.name !== name), { name, query: now }].slice(-MOST_VIEWS));
          }}
          onClose={() => setNaming(false)}
        />
      )}
    </nav>
  );
}

function Naming({ onSave, onClose }: { onSave: (name: string) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const given = name.trim().slice(0, LONGEST);
  return (
    <FormDialog
      title="Save this view"
      verb="Save"
      isReady={given !== ""}
      onSubmit={() => onSave(given)}
      onClose={onClose}
    >
      <TextField
        label="Name"
        value={name}
        onInput={setName}
        hint="Filters, order and columns are kept under this name in this browser. The address shows the same to others."
      />
    </FormDialog>
  );
}
