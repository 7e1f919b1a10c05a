import { useState } from "preact/hooks";
import { Icon } from "./icon.tsx";

const SHOWN_MS = 1_600;

/** A button that copies `text`. `shown`: its label, if it is more than an icon. */
export function Copy({ text, label = "Copy", shown }: { text: string; label?: string; shown?: string | undefined }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), SHOWN_MS);
  };
  const name = done ? "Copied" : label;
  return (
    <button type="button" class={shown ? "btn" : "btn quiet only"} aria-label={name} title={label} onClick={copy}>
      <Icon name={done ? "check" : "copy"} />
      {shown && <span>{done ? "Copied" : shown}</span>}
    </button>
  );
}

/** The clipboard of browsers needs https or localhost. Elsewhere the old way still works. */
async function writeText(text: string) {
  if (navigator.clipboard) return await navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** An id in one line, cut if there is no room, with a copy button. */
export const Id = ({ text }: { text: string }) => (
  <span class="id">
    <code title={text}>{text}</code>
    <Copy text={text} label="Copy the id" />
  </span>
);

/** A command line with a copy button. */
export const Command = ({ text }: { text: string }) => (
  <div class="command">
    <code>{text}</code>
    <Copy text={text} label="Copy the command" />
  </div>
);
