/** One turn: its text, its branches, and what can be done with it. */
import { useState } from "preact/hooks";
import { IconButton } from "../../kit/button.tsx";
import { Copy } from "../../kit/copy.tsx";
import type { Answer } from "./answer.ts";
import { AnswerText, type Look } from "./answer_text.tsx";
import type { Board, Draft } from "./board.ts";
import { branchesOf, type Tree, type Turn } from "./tree.ts";
import { TurnEditor } from "./turn_editor.tsx";

const NAMES = { user: "You", system: "System", assistant: "Answer", tool: "Result" } as const;

type TurnProps = {
  board: Board;
  /** The key and the title of the column. */
  of: string;
  title: string;
  turn: Turn;
  tree: Tree;
  /** The place of the turn in the conversation, for names of buttons. */
  number: number;
  look: Look;
  isBusy: boolean;
  isEditing: boolean;
  onEdit: (id: string | undefined) => void;
};

export function TurnView(props: TurnProps) {
  const { board, of, title, turn, number, look, isEditing, onEdit } = props;
  const name =
    turn.role === "assistant" ? (turn.by ?? title) : turn.role === "tool" ? `Result of ${turn.name}` : NAMES[turn.role];
  const text = turn.role === "assistant" ? turn.answer.text : turn.text;
  const images = "images" in turn ? turn.images : [];
  const save = (draft: Draft) => {
    onEdit(undefined);
    board.edit(of, turn.id, draft);
  };
  return (
    <li class={`playground-turn ${turn.role}`} aria-label={`${NAMES[turn.role]} ${number}`}>
      <small class="playground-by">{name}</small>
      {isEditing ? (
        <TurnEditor
          start={{ text, images }}
          verb={turn.role === "assistant" ? "Save" : "Send"}
          onSave={save}
          onClose={() => onEdit(undefined)}
        />
      ) : turn.role === "assistant" ? (
        <AnswerText answer={turn.answer} look={look} />
      ) : (
        <Said text={text} images={images} />
      )}
      {!isEditing && <Actions {...props} text={text} />}
    </li>
  );
}

const Said = ({ text, images }: { text: string; images: readonly string[] }) => (
  <div class="playground-said">
    {images.length > 0 && (
      <div class="playground-images">
        {images.map((url, i) => (
          <img key={i} src={url} alt={`Attached ${i + 1}`} />
        ))}
      </div>
    )}
    {text !== "" && <pre class="text">{text}</pre>}
    {text === "" && images.length === 0 && <p class="muted">(empty)</p>}
  </div>
);

const isOver = ({ state }: Answer) => state === "done" || state === "stopped" || state === "failed";

function Actions({ board, of, turn, tree, number, isBusy, onEdit, text }: TurnProps & { text: string }) {
  const { ids, at } = branchesOf(tree, turn.id);
  const isAnswer = turn.role === "assistant";
  if (isAnswer && !isOver(turn.answer)) return <div class="playground-actions" />;
  const go = (step: number) => {
    const id = ids[at + step];
    if (id !== undefined) board.choose(of, id);
  };
  return (
    <div class="playground-actions">
      {ids.length > 1 && <Branches at={at} count={ids.length} number={number} onGo={go} />}
      {text !== "" && <Copy text={text} label={`Copy turn ${number}`} />}
      {!isBusy && <IconButton icon="edit" label={`Edit turn ${number}`} onClick={() => onEdit(turn.id)} />}
      {!isBusy && isAnswer && (
        <IconButton icon="again" label={`Regenerate turn ${number}`} onClick={() => board.regenerate(of, turn.id)} />
      )}
    </div>
  );
}

type BranchesProps = { at: number; count: number; number: number; onGo: (step: number) => void };

function Branches({ at, count, number, onGo }: BranchesProps) {
  const [said, setSaid] = useState("");
  const go = (step: number) => {
    setSaid(`Branch ${at + 1 + step} of ${count}`);
    onGo(step);
  };
  return (
    <span class="playground-branches">
      <IconButton icon="left" label={`Earlier branch of turn ${number}`} onClick={() => at > 0 && go(-1)} />
      <span class="n">{`${at + 1} of ${count}`}</span>
      <IconButton icon="right" label={`Later branch of turn ${number}`} onClick={() => at < count - 1 && go(1)} />
      <span class="hidden" role="status">
        {said}
      </span>
    </span>
  );
}
