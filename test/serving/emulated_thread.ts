/** The decoding thread with our kernels in emulation instead of a GPU. */
import { source } from "../../src/workers/serving/engine/backends/ahead.ts";
import "../../src/workers/serving/engine/thread/thread.ts";
import { openTestDevice } from "../native/emulation/choice.ts";

source.open = () => openTestDevice(); // before the first message is handled
