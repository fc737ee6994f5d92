// Requests to this server.

/** A failed request: `status` of HTTP, 0 = the server did not answer. */
export class Failure extends Error {
    constructor(message, status) {
        super(message);
        this.status = status;
    }
}

const KEY = "kvshift-key";

/** The key is kept until the tab is closed. */
export function setKey(key) {
    sessionStorage.setItem(KEY, key);
}

async function request(path, body, signal) {
    const key = sessionStorage.getItem(KEY);
    const headers = {"Content-Type": "application/json"};
    let answer;

    if (key)
        headers.Authorization = `Bearer ${key}`;
    try {
        answer = await fetch(path, {method: "POST", headers, signal, body: JSON.stringify(body)});
    } catch (error) {
        if (error.name === "AbortError")
            throw error;
        throw new Failure("The server does not answer.", 0);
    }
    if (answer.ok)
        return answer;

    const text = await answer.text();
    let message = `The server answers ${answer.status}.`;

    try {
        message = JSON.parse(text).error.message || message;
    } catch {
        // not from this server; the status is all there is to say
    }
    throw new Failure(message, answer.status);
}

/** Asks for JSON. */
export async function ask(path, body = {}, signal = undefined) {
    return (await request(path, body, signal)).json();
}

/** Asks for numbers of type float32. */
export async function askFloats(path, body, signal) {
    const buffer = await (await request(path, body, signal)).arrayBuffer();
    const view = new DataView(buffer);

    return Float32Array.from({length: buffer.byteLength / 4}, (_, i) => view.getFloat32(4 * i, true));
}

/** Yields the objects of a stream of server-sent events. */
export async function* stream(path, body, signal) {
    const reader = (await request(path, body, signal)).body.getReader();
    const decoder = new TextDecoder();
    let rest = "";

    for (;;) {
        const {done, value} = await reader.read();

        rest += decoder.decode(value || new Uint8Array(), {stream: !done});
        const events = rest.split(/\r?\n\r?\n/);
        rest = events.pop();
        for (const event of events) {
            const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:"))
                .map((line) => line.slice(5).trimStart()).join("\n");

            if (data === "[DONE]")
                return;
            if (data === "")
                continue; // a comment, sent so that the connection stays open
            const parsed = JSON.parse(data);
            if (parsed.error)
                throw new Failure(parsed.error.message, 200);
            yield parsed;
        }
        if (done)
            return;
    }
}

/** A function that runs one call at a time and cancels the one before: the newest wins.  Calls that
 * were cancelled return undefined. */
export function newest(call) {
    let controller = null;

    return async (...values) => {
        controller?.abort();
        const mine = controller = new AbortController();

        try {
            const result = await call(mine.signal, ...values);
            return mine.signal.aborted ? undefined : result;
        } catch (error) {
            if (error.name === "AbortError" || mine.signal.aborted)
                return undefined;
            throw error;
        }
    };
}
