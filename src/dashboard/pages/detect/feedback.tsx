import { useState } from "preact/hooks";
import type { Detection } from "../../../resources/detection/schema.ts";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { TextField } from "../../kit/field.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { change, type Item } from "./files.ts";

/** Says what the file really was. Later feedback replaces earlier. */
export function Feedback({ detection, item }: { detection: Detection; item: Item | undefined }) {
  const [comment, setComment] = useState(detection.feedback?.comment ?? "");
  const give = (label: "ai" | "real") => async () => {
    const body = { label, comment: comment === "" ? null : comment };
    const path = `/api/detect/${detection.id}`;
    const next = await attempt(() => api<Detection>(`${path}/feedback`, { method: "POST", body }), "Thank you");
    if (next && item) change(item.key, { detection: { ...detection, feedback: next.feedback } });
    await reload(path);
  };
  const { feedback } = detection;
  return (
    <Card title="What was it really?">
      <div class="stack">
        {feedback && (
          <p role="status">
            {"You said "}
            <b>{feedback.label === "ai" ? "generated" : "real"}</b> <Time at={feedback.timestamp} />
          </p>
        )}
        <TextField label="Comment" value={comment} onInput={setComment} hint="Optional, kept with the result" />
        <div class="row">
          <Button onClick={give("ai")}>It was generated</Button>
          <Button onClick={give("real")}>It was real</Button>
        </div>
      </div>
    </Card>
  );
}
