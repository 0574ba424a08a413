//! `#[task("NAME")]`: a function becomes a task.
//!
//! A part of the crate `turnwise`, not for direct use: it changes with any release.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{
    Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, ReturnType, Token, Type,
    parse::{Parse, ParseStream},
    parse_macro_input,
    punctuated::Punctuated,
    spanned::Spanned,
};

/// Makes a task of a function, async or not.
///
/// ```text
/// #[task("extract", retry = "durations:10s,20s")]
/// async fn extract(args: Extract, db: State<Db>, ctx: Ctx) -> Result<Summary, anyhow::Error> { … }
///
/// turnwise.submit(extract.job(Extract { document: 7 }).group("acme")).await?;
/// ```
///
/// - The arguments: one parameter of any type that serde can read and write, or none. `State<T>` is shared state given
///   to the executor, `Ctx` the run's context; both in any order.
/// - `tx: &Tx` (PostgreSQL) or `tx: SqliteTx` makes it transactional: what it writes there is committed together with its
///   end, exactly once.
/// - It returns nothing, a value that serde can write (kept as the job's result), an `Outcome`, or a `Result` of these.
/// - A function that is not async runs on a thread where it may block.
/// - `retry = "…"` is the policy of jobs that name none of their own; `timeout = "30s"` how long a run may take.
/// - `on_exhausted = "TASK"`: when the retries run out, the job goes on as that task, with the same arguments.
/// - `secret = ["/card/number"]`: secret fields of the arguments, as JSON pointers. Hidden wherever jobs are shown.
/// - `clean_up = FUNCTION`: called when a run was cancelled or has taken too long, once it has stopped: an async function
///   of `Ctx` and the arguments.
/// - `register = false` keeps it out of the collected registry.
#[proc_macro_attribute]
pub fn task(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(attribute as Options);
    let function = parse_macro_input!(item as ItemFn);
    expand(options, function).unwrap_or_else(syn::Error::into_compile_error).into()
}

struct Options {
    name: LitStr,
    retry: Option<LitStr>,
    timeout: Option<LitStr>,
    on_exhausted: Option<LitStr>,
    secret: Vec<LitStr>,
    clean_up: Option<syn::Path>,
    register: bool,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input
            .parse::<LitStr>()
            .map_err(|error| syn::Error::new(error.span(), "write the task's name: #[task(\"NAME\")]"))?;
        let mut options = Self {
            name,
            retry: None,
            timeout: None,
            on_exhausted: None,
            secret: Vec::new(),
            clean_up: None,
            register: true,
        };
        if input.is_empty() {
            return Ok(options);
        }
        input.parse::<Token![,]>()?;
        for meta in Punctuated::<Meta, Token![,]>::parse_terminated(input)? {
            let Meta::NameValue(pair) = &meta else { return Err(unknown(&meta)) };
            let option = pair.path.get_ident().map(Ident::to_string);
            match (option.as_deref(), &pair.value) {
                (Some("retry"), Expr::Lit(ExprLit { lit: Lit::Str(policy), .. })) => {
                    options.retry = Some(policy.clone())
                }
                (Some("timeout"), Expr::Lit(ExprLit { lit: Lit::Str(limit), .. })) => {
                    options.timeout = Some(limit.clone())
                }
                (Some("on_exhausted"), Expr::Lit(ExprLit { lit: Lit::Str(task), .. })) => {
                    options.on_exhausted = Some(task.clone());
                }
                (Some("secret"), Expr::Array(pointers)) => {
                    for pointer in &pointers.elems {
                        let Expr::Lit(ExprLit { lit: Lit::Str(pointer), .. }) = pointer else {
                            return Err(unknown(&meta));
                        };
                        options.secret.push(pointer.clone());
                    }
                }
                (Some("clean_up"), Expr::Path(function)) => options.clean_up = Some(function.path.clone()),
                (Some("register"), Expr::Lit(ExprLit { lit: Lit::Bool(register), .. })) => {
                    options.register = register.value;
                }
                _ => return Err(unknown(&meta)),
            }
        }
        Ok(options)
    }
}

fn unknown(meta: &Meta) -> syn::Error {
    syn::Error::new(
        meta.span(),
        "known options: retry = \"durations:10s,20s\", timeout = \"30s\", on_exhausted = \"TASK\", secret = [\"/card/number\"], clean_up = function, register = false",
    )
}

/// What a parameter of the function is filled with.
enum Parameter {
    Args(Box<Type>),
    State(Box<Type>),
    Ctx,
    Tx,
    SqliteTx,
}

fn expand(options: Options, function: ItemFn) -> syn::Result<Tokens> {
    let Options { name, retry, timeout, on_exhausted, secret, clean_up, register } = options;
    if name.value().is_empty() {
        return Err(syn::Error::new(name.span(), "a task's name must not be empty"));
    }
    if !function.sig.generics.params.is_empty() {
        return Err(syn::Error::new(
            function.sig.generics.span(),
            "a task cannot be generic: its name says which code runs",
        ));
    }
    let parameters = function.sig.inputs.iter().map(parameter).collect::<syn::Result<Vec<_>>>()?;
    let args: Vec<_> = parameters
        .iter()
        .filter_map(|parameter| if let Parameter::Args(args) = parameter { Some(args) } else { None })
        .collect();
    if let Some(second) = args.get(1) {
        return Err(syn::Error::new(
            second.span(),
            "a task takes one parameter of arguments; put the fields into one struct",
        ));
    }
    let args_type = args.first().map_or_else(|| quote!(()), |args| quote!(#args));
    let states: Vec<_> = parameters
        .iter()
        .filter_map(|parameter| if let Parameter::State(state) = parameter { Some(state) } else { None })
        .collect();
    let databases = parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Tx => Some(quote!(::turnwise::Tx::need())),
        Parameter::SqliteTx => Some(quote!(::turnwise::SqliteTx::need())),
        _ => None,
    });
    let values = parameters.iter().map(|parameter| match parameter {
        Parameter::Args(_) => quote!(args),
        Parameter::State(state) => quote!(ctx.state::<#state>().expect("checked when the executor started")),
        Parameter::Ctx => quote!(ctx.clone()),
        Parameter::Tx => quote!(&tx),
        Parameter::SqliteTx => quote!(::turnwise::SqliteTx::of(&ctx)),
    });

    let ItemFn { attrs, vis, sig, .. } = &function;
    let task = &sig.ident;
    let inner = format_ident!("__{}_task", task);
    let mut original = function.clone();
    original.attrs.clear();
    original.vis = syn::Visibility::Inherited;
    original.sig.ident = inner.clone();

    let convert = match &sig.output {
        ReturnType::Type(_, output) if is_result(output) => quote!(::turnwise::__task::from_result),
        _ => quote!(::turnwise::__task::IntoOutcome::into_outcome),
    };
    let call = quote!(#inner(#(#values),*));
    let takes_tx = parameters.iter().any(|parameter| matches!(parameter, Parameter::Tx));
    let run = match sig.asyncness {
        Some(_) if takes_tx => quote!({
            let tx = match ::turnwise::Tx::begin(&ctx).await {
                ::core::result::Result::Ok(tx) => tx,
                ::core::result::Result::Err(outcome) => return outcome,
            };
            let outcome = #convert(#call.await);
            tx.end(&ctx, outcome)
        }),
        None if takes_tx => {
            return Err(syn::Error::new(
                sig.fn_token.span(),
                "a task that takes a Tx talks to PostgreSQL: make it async",
            ));
        }
        Some(_) => quote!(#convert(#call.await)),
        None => quote!({
            let inside = ctx.clone();
            inside.blocking(move || #convert(#call)).await
        }),
    };
    let optional = |text: Option<LitStr>| match text {
        Some(text) => quote!(::core::option::Option::Some(#text)),
        None => quote!(::core::option::Option::None),
    };
    let (retry, timeout, on_exhausted) = (optional(retry), optional(timeout), optional(on_exhausted));
    let clean_up = clean_up.map(|function| {
        quote! {
            async fn clean_up(&self, ctx: ::turnwise::Ctx, args: Self::Args) {
                #function(ctx, args).await;
            }
        }
    });
    let registered = register.then(|| {
        quote! {
            ::turnwise::__task::inventory::submit! {
                ::turnwise::__task::Annotated::new(|| ::turnwise::__task::AnyTask::new(#task))
            }
        }
    });
    Ok(quote! {
        #(#attrs)*
        #[allow(non_camel_case_types)] // named like the function it was
        #[derive(Debug, Clone, Copy)]
        #vis struct #task;

        impl #task {
            /// A job of this task, ready to be submitted.
            #vis fn job(&self, args: #args_type) -> ::turnwise::JobRequest {
                ::turnwise::JobRequest::of(*self, &args)
            }
        }

        impl ::turnwise::Task for #task {
            type Args = #args_type;
            const NAME: &'static str = #name;

            fn retry(&self) -> ::core::option::Option<&'static str> {
                #retry
            }

            fn timeout(&self) -> ::core::option::Option<&'static str> {
                #timeout
            }

            fn on_exhausted(&self) -> ::core::option::Option<&'static str> {
                #on_exhausted
            }

            fn secret(&self) -> &'static [&'static str] {
                &[#(#secret),*]
            }

            #clean_up

            fn needs(&self) -> ::std::vec::Vec<::turnwise::__task::Need> {
                ::std::vec![#(::turnwise::__task::Need::of::<#states>(),)* #(#databases),*]
            }

            async fn run(&self, ctx: ::turnwise::Ctx, args: Self::Args) -> ::turnwise::Outcome {
                #original
                let _ = (&ctx, &args);
                #run
            }
        }

        #registered
    })
}

fn parameter(input: &FnArg) -> syn::Result<Parameter> {
    let FnArg::Typed(typed) = input else {
        return Err(syn::Error::new(input.span(), "a task is a plain function, not a method"));
    };
    if let Type::Reference(reference) = &*typed.ty
        && let Type::Path(path) = &*reference.elem
        && path.path.segments.last().is_some_and(|last| last.ident == "Tx")
    {
        return Ok(Parameter::Tx);
    }
    let Type::Path(path) = &*typed.ty else { return Ok(Parameter::Args(typed.ty.clone())) };
    let Some(last) = path.path.segments.last() else { return Ok(Parameter::Args(typed.ty.clone())) };
    match (last.ident.to_string().as_str(), &last.arguments) {
        ("Ctx", syn::PathArguments::None) => Ok(Parameter::Ctx),
        ("SqliteTx", syn::PathArguments::None) => Ok(Parameter::SqliteTx),
        ("State", syn::PathArguments::AngleBracketed(inner)) => match inner.args.first() {
            Some(syn::GenericArgument::Type(state)) => Ok(Parameter::State(Box::new(state.clone()))),
            _ => Err(syn::Error::new(last.span(), "write State<T> with the type of the state")),
        },
        _ => Ok(Parameter::Args(typed.ty.clone())),
    }
}

fn is_result(output: &Type) -> bool {
    matches!(output, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Result"))
}
