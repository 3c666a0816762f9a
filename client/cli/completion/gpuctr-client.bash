# bash completion of gpuctr-client. The client itself finds the candidates; this asks it for them.

# Offers programs that are files only: keywords, builtins, aliases and functions cannot be run.
_gpuctr_client_programs()
{
	local name
	local -A shell=()
	while IFS= read -r name; do
		shell[$name]=1
	done < <(compgen -k; compgen -b; compgen -a; compgen -A function)
	while IFS= read -r name; do
		if [[ -z ${shell[$name]} ]] || type -P "$name" >/dev/null; then
			COMPREPLY+=("$name")
		fi
	done < <(compgen -c -- "$1")
}

_gpuctr_client()
{
	local line directive= i client=${COMP_WORDS[0]/#\~\//$HOME/}
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:*) directive=$line ;;
		*) COMPREPLY+=("${line%%$'\t'*}") ;;
		esac
	done < <("$client" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	case $directive in
	:program*)
		i=$((${directive#:program } + 1))
		if ((COMP_CWORD == i)); then
			_gpuctr_client_programs "${COMP_WORDS[COMP_CWORD]}"
		elif declare -F _command_offset >/dev/null; then
			_command_offset "$i"
			return
		fi
		compopt -o default 2>/dev/null
		;;
	:files) compopt -o default 2>/dev/null ;;
	:more) compopt -o nospace 2>/dev/null ;;
	esac
}
complete -F _gpuctr_client gpuctr-client
