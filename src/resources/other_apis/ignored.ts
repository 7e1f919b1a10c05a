import { warn } from "../../http/warnings.ts";
import { jsonPointer } from "../../lib/json/pointer.ts";

/** Names fields inside an object of a request that have no effect. Those of the first level are named for every route. */
export function nameIgnored(
  request: Request,
  field: string,
  value: object | null | undefined,
  names: readonly string[],
) {
  for (const name of Object.keys(value ?? {}))
    if (!names.includes(name)) warn(request, `unknown field ${jsonPointer([field, name])}`);
}
