import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { errorText } from "../../lib/error_text.ts";
import { Button, IconButton } from "./button.tsx";

type DialogProps = {
  title: string;
  children: ComponentChildren;
  /** Also called by Esc and a click outside. */
  onClose: () => void;
  wide?: boolean | undefined;
};

/** Fields of a dialog, in the order of the page. */
const FIELDS = "input:not([type=file], :disabled), select:not(:disabled), textarea:not(:disabled)";

/** A native dialog. Its first field has the focus, which stays inside. Esc closes it and returns the focus to the opener. */
export function Dialog({ title, children, onClose, wide }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    ref.current?.showModal();
    ref.current?.querySelector<HTMLElement>(FIELDS)?.focus();
    return () => opener instanceof HTMLElement && opener.focus();
  }, []);
  const outside = (event: MouseEvent) => event.target === ref.current && onClose();
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Esc closes it, the browser's own way
    <dialog ref={ref} class={wide ? "wide" : ""} aria-label={title} onClose={onClose} onClick={outside}>
      <header>
        <h2>{title}</h2>
        <IconButton icon="close" label="Close" onClick={onClose} />
      </header>
      {children}
    </dialog>
  );
}

type FormDialogProps = DialogProps & {
  /** The verb on the button: "Rename". */
  verb: string;
  isReady?: boolean;
  /** Its error is shown below the fields, and the dialog stays. */
  onSubmit: () => unknown;
};

/** Fields that are sent together. The dialog closes when they are accepted, and sends them once. */
export function FormDialog({ verb, isReady = true, onSubmit, children, ...dialog }: FormDialogProps) {
  const [error, setError] = useState<string>();
  const [isSending, setSending] = useState(false);
  const submit = async () => {
    setError(undefined);
    setSending(true);
    try {
      await onSubmit();
      dialog.onClose();
    } catch (cause) {
      setError(errorText(cause));
    } finally {
      setSending(false);
    }
  };
  return (
    <Dialog {...dialog}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady && !isSending) void submit();
        }}
      >
        {children}
        {error !== undefined && (
          <p class="bad" role="alert">
            {error}
          </p>
        )}
        <footer>
          <Button onClick={dialog.onClose}>Cancel</Button>
          <Button kind="primary" submit disabled={!isReady || isSending}>
            {verb}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

type ConfirmProps = {
  title: string;
  children: ComponentChildren;
  /** The verb on the button: "Delete". */
  verb: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
};

/** Asks before something is destroyed. */
export const Confirm = ({ title, children, verb, onConfirm, onClose }: ConfirmProps) => (
  <Dialog title={title} onClose={onClose}>
    <div class="prose">{children}</div>
    <footer>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="danger" onClick={() => onConfirm().then(onClose)}>
        {verb}
      </Button>
    </footer>
  </Dialog>
);
