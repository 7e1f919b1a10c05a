/** The page: saved conversations at the side, the columns, and the field for the next message. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Agent } from "../../../resources/serving/agents/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { CheckField } from "../../kit/field.tsx";
import { Empty, Page as Frame } from "../../kit/page.tsx";
import { place, queryOf, setQuery } from "../../shell/router.ts";
import { attempt, toast } from "../../shell/toasts.tsx";
import { writeAddress } from "./address.ts";
import type { Board } from "./board.ts";
import { ChatColumn } from "./column.tsx";
import { type Column, keyOf } from "./columns.ts";
import { Composer } from "./composer.tsx";
import { useTitles, useVision } from "./facts.ts";
import { hasEarlier, noteAddress } from "./opened.ts";
import { Picker } from "./picker.tsx";
import { wrongOf } from "./request.ts";
import { areSettingsKept, type Entry, entryOf, open, store } from "./saved.ts";
import { SavedList } from "./saved_list.tsx";
import { Settings } from "./settings.tsx";
import { Share } from "./share.tsx";
import { sharedOf } from "./shared.ts";
import { pathOf } from "./tree.ts";

const WRITE_MS = 400;
const NEAR = 120; // pixels above the end of the page

type ChatProps = {
  board: Board;
  columns: readonly Column[];
  deployments: readonly Deployment[];
  agents: readonly Agent[];
  /** An empty conversation with the same settings. This one is kept in memory if it is not saved. */
  onBegin: () => Board;
  onBack: () => void;
};

export function Chat({ board, columns, deployments, agents, onBegin, onBack }: ChatProps) {
  const [picking, setPicking] = useState<string>();
  const [editing, setEditing] = useState<string>();
  const [isSharing, setSharing] = useState(false);
  const fields = board.fields.value;
  const saved = board.saved.value;
  const isColoured = queryOf("colour") !== "off";
  const isPlain = queryOf("markdown") === "off";
  const keys = columns.map(keyOf);
  const wrong = wrongOf(fields);
  const hasTurns = keys.some((key) => board.treeOf(key).turns.size > 0);
  const isBusy = board.running.value.size > 0;
  const titleOf = useTitles(columns);
  const canSee = useVision(keys.map((key) => board.hosts.value.get(key)));
  board.see({ columns, deployments, isColoured }, () => void sync(board));
  noteAddress();
  useEffect(() => {
    const timer = setTimeout(() => place.value.path === "/playground" && writeAddress(fields), WRITE_MS);
    return () => clearTimeout(timer);
  }, [fields]);
  const isUnsaved = (hasTurns && saved === undefined) || hasEarlier();
  useEffect(() => warnOnLeave(isUnsaved), [isUnsaved]);
  useEnd(board, isBusy);

  const show = (next: readonly Column[]) => setQuery({ cols: next.map(keyOf).join(",") || ",", models: undefined });
  const pick = (column: Column) => {
    const at = keys.indexOf(picking ?? "");
    setPicking(undefined);
    if (keys.includes(keyOf(column))) return toast("This model has a column already.", "bad");
    if (at < 0) return show([...columns, column]);
    board.move(keys[at] ?? "", keyOf(column));
    show(columns.map((each, i) => (i === at ? column : each)));
  };
  const send = () => {
    if (Object.keys(wrong).length > 0) return toast("A setting is wrong. Open the settings.", "bad");
    if (board.send() && queryOf("prompt") !== undefined) setQuery({ prompt: undefined });
  };
  const editLast = () => {
    const [key = ""] = keys;
    const turn = pathOf(board.treeOf(key)).findLast(({ role }) => role === "user");
    if (turn && !isBusy) setEditing(`${key} ${turn.id}`);
  };
  const save = async () => {
    board.keep();
    await sync(board);
    if (!areSettingsKept(fields))
      toast(
        "The messages are saved. The settings are too long to be saved: keep the tools or the schema in an agent.",
        "bad",
      );
    const [part] = board.saved.value?.parts.values() ?? [];
    if (part) setQuery({ conversation: part.id });
  };
  const openEntry = async (entry: Entry) => {
    const opened = await attempt(() => open(entry));
    if (!opened) return;
    const [own] = [...opened.trees].filter(([key]) => key === "");
    if (own) opened.trees = new Map([[keys[0] ?? "", own[1]]]);
    if (own) opened.saved.parts = new Map([...opened.saved.parts].map(([, part]) => [keys[0] ?? "", part]));
    onBegin().show(opened);
    setEditing(undefined);
    const cols = [...opened.trees.keys()].filter((key) => key !== "").join(",");
    setQuery({ cols: cols || queryOf("cols"), models: undefined, prompt: undefined, conversation: entry.ids[0] });
  };
  const begin = () => {
    onBegin();
    setEditing(undefined);
    setQuery({ conversation: undefined, prompt: undefined });
    document.getElementById("playground-message")?.focus();
  };
  useLinked(openEntry, saved !== undefined);

  return (
    <Frame
      title="Playground"
      purpose={saved ? saved.name : "Talk to one model or several. Checkpoints and adapters answer by themselves."}
      actions={
        <>
          {hasEarlier() && (
            <Button icon="left" onClick={onBack}>
              Back to the earlier conversation
            </Button>
          )}
          <Button icon="plus" onClick={begin} disabled={!hasTurns}>
            New conversation
          </Button>
          {may("inference", false) && (
            <Button onClick={save} disabled={!hasTurns || saved !== undefined}>
              {saved ? "Saved" : "Save"}
            </Button>
          )}
          <Button onClick={() => setSharing(true)} disabled={!hasTurns}>
            Share
          </Button>
        </>
      }
    >
      {/* biome-ignore lint/a11y/noStaticElementInteractions: only a shortcut; the button Stop does the same */}
      <div
        class="playground"
        onKeyDown={(event) => {
          if (event.key === "Escape" && isBusy) board.stop();
        }}
      >
        <details class="playground-aside" open={innerWidth > 1100}>
          <summary>Saved conversations</summary>
          <SavedList
            shown={saved?.group}
            onOpen={(entry) => void openEntry(entry)}
            onRenamed={(entry, name) => board.renamed(entry.key, name)}
            onRemoved={(entry) => entry.key === saved?.group && begin()}
          />
        </details>
        <div class="playground-main">
          <Settings fields={fields} wrong={wrong} onChange={(next) => (board.fields.value = next)} />
          <div class="row playground-tools">
            <Button icon="plus" onClick={() => setPicking("")}>
              Add column
            </Button>
            <span class="fill" />
            {isColoured && <Legend />}
            <CheckField
              label="Colour by probability"
              checked={isColoured}
              onChange={(on) => setQuery({ colour: on ? undefined : "off" })}
            />
            <CheckField
              label="Markdown"
              checked={!isPlain}
              onChange={(on) => setQuery({ markdown: on ? undefined : "off" })}
            />
            <Copy text={location.href} label="Copy a link with these models and settings" />
          </div>
          {columns.length === 0 ? (
            <Card>
              <Empty title="No column yet" action={<Button onClick={() => setPicking("")}>Choose a model</Button>}>
                Add a deployment, an agent, a base model or a checkpoint of a run.
              </Empty>
            </Card>
          ) : (
            <div class={`playground-columns ${columns.length === 1 ? "one" : ""}`}>
              {columns.map((column, i) => (
                <ChatColumn
                  key={keys[i]}
                  board={board}
                  column={column}
                  deployments={deployments}
                  look={{ isColoured, isPlain }}
                  from={keys.find((key) => key !== keys[i] && board.treeOf(key).turns.size > 0)}
                  editing={editing}
                  onEdit={setEditing}
                  onChange={() => setPicking(keys[i])}
                  onRemove={columns.length > 1 ? () => show(columns.filter((each) => each !== column)) : undefined}
                />
              ))}
            </div>
          )}
          {columns.length > 0 && !hasTurns && board.draft.value.text === "" && <Examples board={board} />}
          <Composer
            board={board}
            canSee={canSee}
            isReady={columns.length > 0 && may("inference", false)}
            onSend={send}
            onEditLast={editLast}
          />
        </div>
      </div>
      {picking !== undefined && (
        <Picker
          title={picking === "" ? "Add a column" : "Choose another model"}
          deployments={deployments}
          agents={agents}
          onClose={() => setPicking(undefined)}
          onPick={pick}
        />
      )}
      {isSharing && (
        <Share columns={sharedOf(board, columns, deployments, titleOf)} onClose={() => setSharing(false)} />
      )}
    </Frame>
  );
}

const EXAMPLES = ["What is 47 + 8?", "Who are you, and what can you do?", "Write a haiku about the sea."];

/** A first message for those who only look. It can be changed before it is sent. */
const Examples = ({ board }: { board: Board }) => (
  <div class="row playground-examples">
    {EXAMPLES.map((text) => (
      <Button
        key={text}
        onClick={() => {
          board.draft.value = { text, images: [] };
          document.getElementById("playground-message")?.focus();
        }}
      >
        {text}
      </Button>
    ))}
  </div>
);

/** A saved conversation stays saved. One after the other: a turn is stored below the one before it. */
let storing: Promise<unknown> = Promise.resolve();
function sync(board: Board): Promise<unknown> {
  const { saved } = board;
  storing = storing.then(async () => {
    const kept = saved.value;
    if (!kept) return;
    const done = await attempt(() => store(kept, board.trees.value, board.fields.value).then(() => true));
    if (!done && kept.parts.size === 0 && saved.value === kept) saved.value = undefined;
  });
  return storing;
}

/** `?conversation=conv_…` opens it, also after the page was loaded again. */
function useLinked(onOpen: (entry: Entry) => Promise<void>, isOpen: boolean) {
  useEffect(() => {
    const id = queryOf("conversation");
    if (id === undefined || isOpen) return;
    void attempt(() => entryOf(id)).then((entry) => entry && onOpen(entry));
  }, []);
}

function warnOnLeave(isUnsaved: boolean) {
  if (!isUnsaved) return;
  const ask = (event: BeforeUnloadEvent) => event.preventDefault();
  addEventListener("beforeunload", ask);
  return () => removeEventListener("beforeunload", ask);
}

/** The page stays at its end while answers grow, if the reader is there. */
function useEnd(board: Board, isBusy: boolean) {
  const isNear = useRef(true);
  useEffect(() => {
    const note = () => {
      isNear.current = document.documentElement.scrollHeight - innerHeight - scrollY < NEAR;
    };
    addEventListener("scroll", note, { passive: true });
    return () => removeEventListener("scroll", note);
  }, []);
  const trees = board.trees.value;
  useEffect(() => {
    if (isBusy && isNear.current) scrollTo(0, document.documentElement.scrollHeight);
  }, [trees, isBusy]);
}

const Legend = () => (
  <small class="playground-legend">
    <span class="playground-token likely">under 90 %</span>
    <span class="playground-token unsure">under 50 %</span>
    <span class="playground-token rare">under 15 %</span>
  </small>
);
