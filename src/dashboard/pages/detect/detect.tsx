import { useRef, useState } from "preact/hooks";
import { bytes, plural } from "../../data/format.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField } from "../../kit/field.tsx";
import { Page as Frame } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { addFiles, clearFiles, type Item, items, MODELS, models } from "./files.ts";
import { Result } from "./result.tsx";
import { csvOf, scoreOf, tierOf } from "./words.ts";

const ACCEPTED =
  "image/jpeg,image/png,image/webp,image/gif,audio/wav,audio/x-wav,audio/flac,audio/mpeg,.wav,.flac,.mp3";

export function Page() {
  const shown = items.value.find(({ key }) => String(key) === queryOf("file")) ?? items.value[0];
  return (
    <Frame title="Detect" purpose="Was an image or a recording of speech generated? Files stay on this server.">
      <div class="grid">
        <Drop />
        {items.value.length > 1 && <Files shown={shown} />}
        {shown && <Shown key={shown.key} item={shown} />}
      </div>
    </Frame>
  );
}

/** Takes dropped files; its button opens the same choice for the keyboard. */
function Drop() {
  const [isOver, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    addFiles(event.dataTransfer?.files ?? []);
  };
  return (
    <section
      class={`card detect-drop ${isOver ? "over" : ""} ${items.value.length > 0 ? "small" : ""}`}
      aria-label="Files to detect"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <div>
        <b>Drop images or recordings here</b>
        <p class="muted">JPEG, PNG, WebP, GIF, WAV, FLAC or MP3, 10 MB each, as many as you like.</p>
      </div>
      <input
        ref={input}
        class="hidden"
        type="file"
        multiple
        accept={ACCEPTED}
        aria-label="Files"
        tabIndex={-1}
        onChange={(event) => {
          addFiles(event.currentTarget.files ?? []);
          event.currentTarget.value = "";
        }}
      />
      <div class="row filters detect-choice">
        <Button kind="primary" onClick={() => input.current?.click()}>
          Choose files
        </Button>
        <SelectField
          label="Models for images"
          value={models.value}
          options={MODELS}
          onChange={(next) => (models.value = next)}
        />
      </div>
    </section>
  );
}

function Files({ shown }: { shown: Item | undefined }) {
  const all = items.value;
  const done = all.filter(({ state }) => state === "done" || state === "failed").length;
  const generated = all.filter(({ detection }) => detection?.isFake).length;
  const save = () => {
    const csv = csvOf(all.map(({ file, detection, error }) => ({ name: file.name, detection, error })));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    link.download = "detections.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <Card
      title={plural(all.length, "file")}
      note={`${done} done, ${generated} likely generated or generated`}
      side={
        <span class="detect-buttons">
          <Button onClick={save} disabled={done === 0}>
            Save as CSV
          </Button>
          <Button onClick={clearFiles}>Clear</Button>
        </span>
      }
    >
      <ul class="detect-files">
        {all.map((item) => (
          <li key={item.key}>
            <button
              type="button"
              aria-current={item === shown ? "true" : undefined}
              onClick={() => setQuery({ file: item.key })}
            >
              <Thumb item={item} />
              <span class="detect-name">{item.file.name}</span>
              <Short item={item} />
            </button>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const Thumb = ({ item: { file, url } }: { item: Item }) =>
  file.type.startsWith("audio/") ? (
    <span class="detect-thumb">♪</span>
  ) : (
    <img class="detect-thumb" src={url} alt="" loading="lazy" />
  );

function Short({ item: { state, detection } }: { item: Item }) {
  if (state === "waiting") return <small class="muted">waits</small>;
  if (state === "running") return <small class="muted">is scored</small>;
  if (!detection) return <Pill tone="bad">Failed</Pill>;
  const { text, tone } = tierOf(detection.prediction);
  return <Pill tone={tone}>{`${text} ${scoreOf(detection.ensemble_score)}`}</Pill>;
}

function Shown({ item }: { item: Item }) {
  const { file, detection, error, state } = item;
  if (detection) return <Result detection={detection} item={item} name={file.name} />;
  return (
    <Card title={file.name} note={bytes(file.size)}>
      {state === "failed" ? (
        <p class="bad" role="alert">
          {error}
        </p>
      ) : (
        <p class="muted" role="status">
          {state === "running" ? "The models look at it now." : "Waits for its turn."}
        </p>
      )}
    </Card>
  );
}
