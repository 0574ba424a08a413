//! A web service that submits jobs in its requests' transactions and runs them in the same process.
//!
//! ```text
//! DATABASE_URL=postgres://user@host/name cargo run -p turnwise-example-axum
//! curl -i -d '{"email": "ann@example.com"}' -H 'content-type: application/json' http://127.0.0.1:3000/signups
//! curl http://127.0.0.1:3000/signups/ann@example.com
//! ```
//!
//! A request's row and its job are committed together: there is no signup without its mail and no mail without its signup.
//! SIGTERM or Ctrl-C lets open requests end, then running tasks; jobs that have not begun wait for the next start, or run on another node.

#![allow(clippy::print_stdout, clippy::print_stderr)] // it is a program

use std::env;

use axum::{
    Json, Router,
    extract::{self, Path},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Row};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use turnwise::{Options, Schema, State, Turnwise, task};

const TABLE: &str = "create table if not exists signup (
    email text primary key, job text not null, welcomed timestamptz)";

#[derive(Serialize, Deserialize)]
struct Signup {
    email: String,
}

#[derive(Serialize)]
struct Accepted {
    job: String,
}

#[derive(Serialize)]
struct Shown {
    email: String,
    welcomed: bool,
}

/// Here a mail would be sent. It may run twice, after a crash for example: the update is the same both times.
#[task("welcome", retry = "exponential:1s,10", timeout = "30s")]
async fn welcome(signup: Signup, db: State<PgPool>) -> Result<(), sqlx::Error> {
    sqlx::query("update signup set welcomed = now() where email = $1").bind(&signup.email).execute(&*db).await?;
    Ok(())
}

async fn sign_up(
    extract::State(db): extract::State<PgPool>,
    Json(signup): Json<Signup>,
) -> Result<(StatusCode, Json<Accepted>), Failure> {
    let email = signup.email.clone();
    let company = email.rsplit('@').next().unwrap_or_default().to_owned();
    let mut tx = db.begin().await?;
    // One company that signs up by the thousand does not delay the mail of another.
    let job = welcome.job(signup).group(&company).submit_in_sqlx(&mut tx).await?.to_string();
    sqlx::query("insert into signup (email, job) values ($1, $2)").bind(&email).bind(&job).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(Accepted { job })))
}

async fn show(extract::State(db): extract::State<PgPool>, Path(email): Path<String>) -> Result<Json<Shown>, Failure> {
    let query = sqlx::query("select welcomed is not null as welcomed from signup where email = $1");
    let row = query.bind(&email).fetch_one(&db).await?;
    Ok(Json(Shown { email, welcomed: row.try_get("welcomed")? }))
}

/// One text for the caller; what happened is logged.
struct Failure(StatusCode, &'static str);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::RowNotFound => Self(StatusCode::NOT_FOUND, "this address has not signed up"),
            sqlx::Error::Database(said) if said.is_unique_violation() => {
                Self(StatusCode::CONFLICT, "this address has signed up already")
            }
            _ => {
                eprintln!("{error}");
                Self(StatusCode::INTERNAL_SERVER_ERROR, "try again later")
            }
        }
    }
}

impl From<turnwise::Error> for Failure {
    fn from(error: turnwise::Error) -> Self {
        match error {
            turnwise::Error::Invalid(_) => Self(StatusCode::BAD_REQUEST, "this is not an address"),
            error => {
                eprintln!("{error}");
                Self(StatusCode::INTERNAL_SERVER_ERROR, "try again later")
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), anyhow::Error> {
    let url = env::var("DATABASE_URL")?;
    let address = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let db = PgPool::connect(&url).await?;
    sqlx::query(TABLE).execute(&db).await?;

    // Opening it makes the schema, so it comes before the first request.
    let options = Options { schema: Schema::Migrate, ..Options::default() };
    let turnwise = Turnwise::open_with(&url, options).await?;
    let executor = turnwise.executor()?.state(db.clone()).build()?;
    executor.start().await?;

    let service = Router::new().route("/signups", post(sign_up)).route("/signups/{email}", get(show)).with_state(db);
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stopped = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    axum::serve(listener, service).with_graceful_shutdown(stopped).await?;

    // No request is left that could submit; what runs may end, for up to 30 s (`await_termination`).
    executor.stop().await;
    println!("stopped");
    Ok(())
}
