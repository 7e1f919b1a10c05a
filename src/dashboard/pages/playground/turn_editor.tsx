/** Changes the text of a turn in its place. Enter saves, Shift+Enter begins a new line, Esc leaves it as it was. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "../../kit/button.tsx";
import type { Draft } from "./board.ts";
import { Images } from "./images.tsx";

type EditorProps = { start: Draft; verb: string; onSave: (draft: Draft) => void; onClose: () => void };

export function TurnEditor({ start, verb, onSave, onClose }: EditorProps) {
  const [draft, setDraft] = useState(start);
  const ref = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    ref.current?.focus();
    ref.current?.setSelectionRange(start.text.length, start.text.length);
  }, []);
  const isEmpty = draft.text.trim() === "" && draft.images.length === 0;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      onClose();
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!isEmpty) onSave(draft);
  };
  return (
    <div class="playground-editor">
      <Images of={draft.images} onChange={(images) => setDraft({ ...draft, images })} />
      <textarea
        ref={ref}
        aria-label="Text of the turn"
        rows={Math.min(14, draft.text.split("\n").length + 1)}
        value={draft.text}
        onKeyDown={onKeyDown}
        onInput={({ currentTarget: { value: text } }) => setDraft({ ...draft, text })}
      />
      <div class="row">
        <Button kind="primary" onClick={() => onSave(draft)} disabled={isEmpty}>
          {verb}
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </div>
  );
}
