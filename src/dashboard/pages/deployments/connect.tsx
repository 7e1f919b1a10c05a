import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { Card, Facts } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Time } from "../../kit/time.tsx";

/** How other programs reach the deployment. */
export function Connect({ deployment }: { deployment: Deployment }) {
  const { id, name, gpu, created_at: made, started_at: started } = deployment;
  const base = `${location.origin}/v1`;
  const body = JSON.stringify({ model: name, messages: [{ role: "user", content: "Hello" }] });
  const curl = `curl -s ${base}/chat/completions -H "Authorization: Bearer $VERK_API_KEY" \\\n  -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}'`;
  return (
    <div class="grid two">
      <Card title="Send a request" side={<Copy text={curl} label="Copy the command" />}>
        <pre class="text deployments-error">{curl}</pre>
      </Card>
      <Card title="Address">
        <Facts
          rows={[
            ["Base address", base],
            ["Model name", name],
            ["Deployment", id],
            ["Device", `${gpu.count} × ${gpu.type}`],
            ["Created", <Time key="made" at={made} />],
            ["First served", <Time key="served" at={started} />],
          ]}
        />
      </Card>
    </div>
  );
}
