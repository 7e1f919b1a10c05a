import type { Detection } from "../../../resources/detection/schema.ts";
import { useResource } from "../../data/resource.ts";
import { Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import type { PageProps } from "../spec.ts";
import { items } from "./files.ts";
import { Result } from "./result.tsx";

/** A stored result by its id. The server does not keep the file: its picture is shown only where it was dropped. */
export function Page({ params }: PageProps) {
  const id = params["id"] ?? "";
  const detection = useResource<Detection>(`/api/detect/${encodeURIComponent(id)}`);
  const item = items.value.find((each) => each.detection?.id === id);
  return (
    <Frame title="Detection" purpose={id} above={[["Detect", "/detect"]]}>
      <Loaded of={detection} skeleton={<Skeleton height={300} />}>
        {(shown) => <Result detection={shown} item={item} name={item?.file.name ?? "Result"} />}
      </Loaded>
    </Frame>
  );
}
