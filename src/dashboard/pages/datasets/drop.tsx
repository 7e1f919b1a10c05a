import { useRef, useState } from "preact/hooks";

type DropProps = { label: string; hint: string; accept: string; onFile: (file: File) => void };

export function Drop({ label, hint, accept, onFile }: DropProps) {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const take = (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (file) onFile(file);
  };
  const stop = (event: DragEvent, isOver: boolean) => {
    event.preventDefault();
    setOver(isOver);
  };
  return (
    <>
      <button
        type="button"
        class={`datasets-drop ${over ? "over" : ""}`}
        onClick={() => input.current?.click()}
        onDragOver={(event) => stop(event, true)}
        onDragLeave={(event) => stop(event, false)}
        onDrop={(event) => {
          stop(event, false);
          take(event.dataTransfer?.files);
        }}
      >
        <b>{label}</b>
        <span>{hint}</span>
      </button>
      <input
        ref={input}
        type="file"
        class="hidden"
        tabIndex={-1}
        aria-hidden="true"
        accept={accept}
        onChange={(event) => {
          take(event.currentTarget.files);
          event.currentTarget.value = ""; // the same file may be chosen again
        }}
      />
    </>
  );
}
