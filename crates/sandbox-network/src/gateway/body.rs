//! Bodies whose words change on their way.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use bytes::Bytes;
use futures::TryStreamExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderMap;
use tokio::io::AsyncRead;
use tokio_util::io::{ReaderStream, StreamReader};

use super::rewrite::{Rewriter, Words};

/// Any body; its errors are those of a connection.
pub(super) type AnyBody = BoxBody<Bytes, io::Error>;

/// A body that came over a connection.
pub(super) fn any(body: hyper::body::Incoming) -> AnyBody {
    body.map_err(io::Error::other).boxed()
}

/// The body with its words replaced, those of its trailers too.
pub(super) fn rewritten(body: AnyBody, words: &Words) -> AnyBody {
    Rewritten { body, words: words.clone(), passing: Some(Rewriter::new(words.clone())), after: None }.boxed()
}

/// What a body says without its compression; `None` for one that is not known here.
pub(super) fn plain(body: AnyBody, encoding: &str) -> Option<AnyBody> {
    let bytes = BodyStream::new(body).try_filter_map(|frame| async { Ok(frame.into_data().ok()) });
    let read = StreamReader::new(Box::pin(bytes));
    Some(match encoding {
        "gzip" | "x-gzip" => {
            let mut decoder = GzipDecoder::new(read);
            decoder.multiple_members(true);
            stream(decoder)
        }
        "deflate" => stream(ZlibDecoder::new(read)),
        "br" => stream(BrotliDecoder::new(read)),
        "zstd" => stream(ZstdDecoder::new(read)),
        _ => return None,
    })
}

fn stream(read: impl AsyncRead + Send + Sync + 'static) -> AnyBody {
    StreamBody::new(ReaderStream::new(read).map_ok(Frame::data)).boxed()
}

/// Fields with their words replaced.
pub(super) fn rewrite_fields(fields: &mut HeaderMap, words: &Words) {
    for value in fields.values_mut() {
        if let Some(text) = words.replaced(value.as_bytes())
            && let Ok(other) = text.as_slice().try_into()
        {
            *value = other;
        }
    }
}

struct Rewritten {
    body: AnyBody,
    words: Words,
    /// Until the last byte has passed.
    passing: Option<Rewriter>,
    /// What comes after it.
    after: Option<Frame<Bytes>>,
}

impl Body for Rewritten {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(frame) = self.after.take() {
            return Poll::Ready(Some(Ok(frame)));
        }
        loop {
            let this = &mut *self;
            let Some(passing) = &mut this.passing else { return Poll::Ready(None) };
            let next = ready!(Pin::new(&mut this.body).poll_frame(context)).transpose()?;
            match next.map(Frame::into_data) {
                Some(Ok(data)) => {
                    let out = passing.push(&data);
                    if !out.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                    }
                }
                end => {
                    let rest = passing.finish();
                    this.passing = None;
                    let trailers = end.and_then(Result::err).and_then(|frame| frame.into_trailers().ok());
                    let trailers = trailers.map(|mut fields| {
                        rewrite_fields(&mut fields, &this.words);
                        Frame::trailers(fields)
                    });
                    if rest.is_empty() {
                        return Poll::Ready(trailers.map(Ok));
                    }
                    this.after = trailers;
                    return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.after.is_none() && self.passing.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.body.size_hint();
        match (self.words.keeps_length(), &self.passing, inner.exact()) {
            // What is kept back belongs to it.
            (true, Some(passing), Some(exact)) => SizeHint::with_exact(exact + passing.kept_bytes()),
            _ => SizeHint::default(),
        }
    }
}
