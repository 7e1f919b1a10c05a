/** Saved conversations at the side: open, rename, delete. */
import { useState } from "preact/hooks";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { IconButton } from "../../kit/button.tsx";
import { Confirm, FormDialog } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/field.tsx";
import { Loaded, Skeleton } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt, toast } from "../../shell/toasts.tsx";
import { CONVERSATIONS, type Conversation, type Entry, entriesOf, removeEntry, rename } from "./saved.ts";

type ListProps = {
  /** The key of the conversation that is shown. */
  shown: string | undefined;
  onOpen: (entry: Entry) => void;
  onRenamed: (entry: Entry, name: string) => void;
  onRemoved: (entry: Entry) => void;
};

const shownName = ({ name }: Entry) => name || "Untitled conversation";

export function SavedList({ shown, onOpen, onRenamed, onRemoved }: ListProps) {
  const list = useResource<ListPage<Conversation>>(CONVERSATIONS);
  const [naming, setNaming] = useState<Entry>();
  const [removing, setRemoving] = useState<Entry>();
  return (
    <>
      <Loaded of={list} skeleton={<Skeleton rows={4} />}>
        {({ data }) =>
          data.length === 0 ? (
            <p class="muted">None yet. Press Save to keep a conversation on this server.</p>
          ) : (
            <ul class="playground-saved">
              {entriesOf(data).map((entry) => (
                <li key={entry.key} aria-current={entry.key === shown ? "true" : undefined}>
                  <button type="button" class="plain" onClick={() => onOpen(entry)}>
                    <span>{shownName(entry)}</span>
                    <Time at={new Date(entry.at * 1000).toISOString()} />
                  </button>
                  {may("inference", false) && (
                    <>
                      <IconButton icon="edit" label={`Rename ${shownName(entry)}`} onClick={() => setNaming(entry)} />
                      <IconButton
                        icon="trash"
                        label={`Delete ${shownName(entry)}`}
                        onClick={() => setRemoving(entry)}
                      />
                    </>
                  )}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      {naming && <Rename entry={naming} onClose={() => setNaming(undefined)} onRenamed={onRenamed} />}
      {removing && (
        <Confirm
          title={`Delete ${shownName(removing)}?`}
          verb="Delete"
          onConfirm={async () => {
            await attempt(() => removeEntry(removing), "Deleted");
            onRemoved(removing);
          }}
          onClose={() => setRemoving(undefined)}
        >
          Its messages are removed from the server.
        </Confirm>
      )}
    </>
  );
}

type RenameProps = { entry: Entry; onClose: () => void; onRenamed: ListProps["onRenamed"] };

function Rename({ entry, onClose, onRenamed }: RenameProps) {
  const [name, setName] = useState(entry.name ?? "");
  const save = async () => {
    await rename(entry, name.trim());
    toast("Renamed");
    onRenamed(entry, name.trim());
  };
  return (
    <FormDialog
      title="Rename the conversation"
      verb="Rename"
      isReady={name.trim() !== ""}
      onSubmit={save}
      onClose={onClose}
    >
      <TextField label="Name" value={name} onInput={setName} />
    </FormDialog>
  );
}
