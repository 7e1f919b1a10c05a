/** The field for the next message. It stays at the bottom and sends to all columns. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Button, IconButton } from "../../kit/button.tsx";
import { toast } from "../../shell/toasts.tsx";
import type { Board } from "./board.ts";
import { Images, MOST_IMAGES, readImages } from "./images.tsx";

type ComposerProps = {
  board: Board;
  /** All columns read images. */
  canSee: boolean;
  isReady: boolean;
  onSend: () => void;
  onEditLast: () => void;
};

const MOST_ROWS = 12;

export function Composer({ board, canSee, isReady, onSend, onEditLast }: ComposerProps) {
  const ref = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const { text, images } = board.draft.value;
  const isBusy = board.running.value.size > 0;
  useEffect(() => ref.current?.focus({ preventScroll: true }), []);

  const attach = async (files: Iterable<File>) => {
    const read = await readImages(files);
    if (read.length === 0) return toast("Attach images: PNG, JPEG or WebP.", "bad");
    const { draft } = board;
    draft.value = { ...draft.value, images: [...draft.value.images, ...read].slice(0, MOST_IMAGES) };
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowUp" && text === "") {
      event.preventDefault();
      onEditLast();
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    onSend();
  };
  const onPaste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!canSee || files.length === 0) return;
    event.preventDefault();
    void attach(files);
  };
  const onDrop = (event: DragEvent) => {
    setOver(false);
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    if (canSee) void attach(files);
    else toast("These models read no images.", "bad");
  };
  return (
    <form
      class={`playground-composer ${isOver ? "over" : ""}`}
      aria-label="Next message"
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(canSee);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <Images
        of={images}
        onChange={(next) => {
          board.draft.value = { text, images: next };
        }}
      />
      <textarea
        ref={ref}
        id="playground-message"
        aria-label="Message"
        placeholder="Write a message"
        rows={Math.min(MOST_ROWS, Math.max(1, text.split("\n").length))}
        value={text}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
        onInput={({ currentTarget: { value } }) => {
          board.draft.value = { text: value, images };
        }}
      />
      <div class="row">
        {canSee && (
          <>
            <input
              ref={picker}
              type="file"
              accept="image/*"
              multiple
              hidden
              onChange={({ currentTarget }) => void attach(currentTarget.files ?? [])}
            />
            <IconButton icon="image" label="Attach images" onClick={() => picker.current?.click()} />
          </>
        )}
        <small class="playground-hint">
          <kbd>Enter</kbd> sends, <kbd>Shift Enter</kbd> begins a line, <kbd>Esc</kbd> stops, <kbd>↑</kbd> edits
        </small>
        <span class="fill" />
        {isBusy ? (
          <Button kind="primary" icon="stop" onClick={() => board.stop()}>
            Stop
          </Button>
        ) : (
          <Button kind="primary" icon="send" submit disabled={!isReady}>
            Send
          </Button>
        )}
      </div>
    </form>
  );
}
